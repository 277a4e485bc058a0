#include "runtime/names.h"

#include <array>

#include "base/id.h"

namespace boxlite::runtime {

namespace {

constexpr size_t kMaxNameLength = 128;

constexpr std::array<std::string_view, 48> kAdjectives = {
    "agile",  "amber",  "apt",     "bold",   "brave",  "bright", "brisk", "calm",   "clear",  "clever",
    "cosmic", "crisp",  "curious", "deft",   "eager",  "fair",   "fleet", "fond",   "gentle", "glad",
    "golden", "grand",  "happy",   "hardy",  "humble", "keen",   "kind",  "lively", "lucid",  "merry",
    "mighty", "modest", "neat",    "nimble", "noble",  "polite", "proud", "quick",  "quiet",  "rapid",
    "sharp",  "silent", "smooth",  "steady", "sunny",  "swift",  "vivid", "wise"};

constexpr std::array<std::string_view, 48> kAnimals = {
    "badger", "bat",   "bear",   "beaver", "bee",    "bison",   "crane", "cricket", "deer",  "dolphin",
    "dove",   "eagle", "egret",  "elk",    "falcon", "ferret",  "finch", "fox",     "gecko", "gull",
    "hare",   "hawk",  "heron",  "horse",  "ibex",   "jackdaw", "koala", "lark",    "lemur", "lynx",
    "marten", "mole",  "moose",  "newt",   "ocelot", "orca",    "otter", "owl",     "panda", "puffin",
    "raven",  "robin", "salmon", "seal",   "stork",  "swan",    "tapir", "wren"};

bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

Result<void> check_name(std::string_view name) {
    bool good = !name.empty() && name.size() <= kMaxNameLength && is_alphanumeric(name.front());
    for (const char c : name) good &= is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
    if (good) return {};
    return base::make_error(
        ErrorCode::kInvalidArgument,
        "invalid box name '{}': 1 to {} characters, a letter or digit first, then letters, "
        "digits, '.', '_' and '-'",
        name.substr(0, kMaxNameLength + 1), kMaxNameLength);
}

std::string make_name(int attempt) {
    std::array<uint8_t, 4> random{};
    base::random_bytes(random);
    std::string name = fmt::format("{}_{}", kAdjectives[random[0] % kAdjectives.size()],
                                   kAnimals[random[1] % kAnimals.size()]);
    if (attempt > 0) name += fmt::format("_{}", random[2] << 8 | random[3]);
    return name;
}

}  // namespace boxlite::runtime
