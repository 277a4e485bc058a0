// --secret, for new boxes and for those that are there.
#pragma once

#include <string>
#include <vector>

#include "boxlite/options.h"
#include "cli/args.h"

namespace boxlite::cli {

// For run and create, and for start, restart and update.
Flag new_secret_flag();
Flag secret_value_flag();

// "NAME@HOST[,HOST...][=VALUE]", with ",env=VARIABLE", ",file=PATH", ",stdin", ",query" and
// ",placeholder=TEXT" between or behind the hosts; what follows the first other "=" is the value, commas too.
// Without any source it is the variable NAME of this process. kInvalidArgument names what is wrong.
Result<Secret> parse_secret(const std::string& text);
// "NAME=VALUE", "NAME" for the variable NAME of this process, or "NAME" with one of the sources; the value is
// read.
Result<SecretValue> parse_secret_value(const std::string& text);

Result<std::vector<Secret>> new_secrets(const Arguments& arguments);
Result<std::vector<SecretValue>> secret_values(const Arguments& arguments);

}  // namespace boxlite::cli
