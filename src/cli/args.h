// Command lines with Docker's habits: --flag=value and --flag value, short flags that combine (-it, -eA=1,
// -itw /x), boolean flags that take =true or =false, "--" as the end of flags, and commands whose flags stop
// at their first operand.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boxlite::cli {

struct Flag {
    char letter = 0;         // 0: none
    std::string_view name;   // without dashes
    std::string_view value;  // what to call its value in help; empty: boolean
    std::string_view help;
    bool repeats = false;  // may be given more than once; else the last one counts
};

enum class Operands {
    kAnywhere,  // flags and operands in any order
    kLast,      // the first operand ends the flags: the rest is somebody else's command line
};

class Arguments {
  public:
    bool has(std::string_view flag) const { return values_.contains(flag); }
    // Of a boolean flag: false when absent.
    bool enabled(std::string_view flag) const;
    std::string value(std::string_view flag, std::string_view fallback = {}) const;
    std::vector<std::string> values(std::string_view flag) const;
    // kInvalidArgument unless the value is a whole number in the range.
    Result<uint64_t> number(std::string_view flag, uint64_t fallback, uint64_t least, uint64_t most) const;

    std::vector<std::string> operands;

  private:
    friend class ArgumentParser;
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// kInvalidArgument names what is wrong, and the nearest flag for one that does not exist.
Result<Arguments> parse_arguments(std::span<const Flag> flags, Operands style,
                                  std::span<const std::string> args);

// The entry of `candidates` that is nearest to `word`, if any is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace boxlite::cli
