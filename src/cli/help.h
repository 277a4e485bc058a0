// Help texts, made from the table of commands.
#pragma once

#include <string>

#include "cli/command.h"

namespace boxlite::cli {

std::string general_help();
std::string command_help(const Command& command);

}  // namespace boxlite::cli
