// How an image's configuration and a caller's options become the settings of a process, with Docker's rules.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "boxlite/options.h"
#include "image/image.h"
#include "runtime/box_record.h"

namespace boxlite::runtime {

inline constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Fills argv, env, working_dir, user, stop_signal and the terminal settings of `config`.
// - An entrypoint given by the caller drops the image's CMD too; a command given by the caller replaces CMD.
// - The caller's variables replace the image's of the same name; PATH is never missing.
// - A relative working directory counts from the image's.
// kInvalidArgument for a variable name that is empty or holds '=' or NUL, and for a job without a program.
Result<void> apply_image(const image::ImageConfig& image, const BoxOptions& options, BoxConfig& config);

// Sets NAME in a list of NAME=value.
void set_variable(std::vector<std::string>& env, std::string_view name, std::string_view value);
bool has_variable(const std::vector<std::string>& env, std::string_view name);
Result<void> check_environment(const Environment& env);

// "SIGTERM", "TERM", "15", "RTMIN+3"; kInvalidArgument for anything else.
Result<int> parse_signal(std::string_view text);

// "NET_ADMIN" from any of Docker's spellings; "ALL" stays. kInvalidArgument for an unknown name.
Result<std::vector<std::string>> normalize_capabilities(const std::vector<std::string>& names);

}  // namespace boxlite::runtime
