// The flags that run, create and exec share.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "boxlite/options.h"
#include "cli/args.h"

namespace boxlite::cli {

// -i -t -e --env-file -w -u
std::vector<Flag> process_flags();
// --name --rm -d --cpus --memory --disk-size --isolation …
std::vector<Flag> box_flags();

// Variables of --env-file first, then of -e. A name without '=' takes its value from this process, and is
// left out when there is none.
Result<Environment> environment(const Arguments& arguments);

// Everything but the command: image, name, resources, process settings.
Result<BoxOptions> box_options(const Arguments& arguments);

// MiB, or with a unit as Docker takes it: 512m, 2g, 1073741824b, 65536k.
Result<uint32_t> memory_mib(const std::string& text);

// An error with Docker's words for -t without a terminal on standard input.
Result<void> check_terminal(const Arguments& arguments);

// Leaves out a leading "--".
std::vector<std::string> command_of(const Arguments& arguments);

}  // namespace boxlite::cli
