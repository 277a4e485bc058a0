#include "cli/args.h"

#include <algorithm>
#include <charconv>

namespace boxlite::cli {

namespace {

// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
        }
    }
    return row[b.size()];
}

bool is_true(std::string_view text) {
    return text == "true" || text == "1" || text == "t" || text == "T";
}
bool is_false(std::string_view text) {
    return text == "false" || text == "0" || text == "f" || text == "F";
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
    std::string_view best;
    size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
    for (const std::string_view candidate : candidates) {
        const bool prefix = word.size() >= 2 && candidate.starts_with(word);
        const size_t d = prefix ? 1 : distance(word, candidate);
        if (d >= best_distance) continue;
        best_distance = d;
        best = candidate;
    }
    return best;
}

bool Arguments::enabled(std::string_view flag) const {
    const auto found = values_.find(flag);
    return found != values_.end() && is_true(found->second.back());
}

std::string Arguments::value(std::string_view flag, std::string_view fallback) const {
    const auto found = values_.find(flag);
    return found == values_.end() ? std::string(fallback) : found->second.back();
}

std::vector<std::string> Arguments::values(std::string_view flag) const {
    const auto found = values_.find(flag);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<uint64_t> Arguments::number(std::string_view flag, uint64_t fallback, uint64_t least,
                                   uint64_t most) const {
    if (!has(flag)) return fallback;
    const std::string text = value(flag);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "invalid value '{}' for --{}: a number from {} to {} is needed", text, flag,
                                least, most);
    return number;
}

class ArgumentParser {
  public:
    ArgumentParser(std::span<const Flag> flags, std::span<const std::string> args)
        : flags_(flags), args_(args) {}

    Result<Arguments> parse(Operands style) {
        while (next_ < args_.size()) {
            const std::string& word = args_[next_++];
            if (word == "--") {
                take_rest();
            } else if (word.starts_with("--")) {
                TRY(long_flag(std::string_view(word).substr(2)));
            } else if (word.size() > 1 && word[0] == '-') {
                TRY(short_flags(std::string_view(word).substr(1)));
            } else {
                result_.operands.push_back(word);
                if (style == Operands::kLast) take_rest();
            }
        }
        return std::move(result_);
    }

  private:
    void take_rest() {
        const auto rest = args_.subspan(next_);
        result_.operands.insert(result_.operands.end(), rest.begin(), rest.end());
        next_ = args_.size();
    }

    Result<void> long_flag(std::string_view text) {
        const size_t equals = text.find('=');
        const std::string_view name = text.substr(0, equals);
        const auto flag =
            std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name; });
        if (name.empty() || flag == flags_.end()) return unknown(name);
        if (equals != std::string_view::npos) return set(*flag, text.substr(equals + 1));
        if (flag->value.empty()) return set(*flag, "true");
        return take_value(*flag);
    }

    Result<void> short_flags(std::string_view letters) {
        while (!letters.empty()) {
            const char letter = letters.front();
            letters.remove_prefix(1);
            const auto flag =
                std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.letter == letter; });
            if (flag == flags_.end())
                return base::make_error(ErrorCode::kInvalidArgument, "unknown flag: -{}", letter);
            if (flag->value.empty()) {
                if (letters.starts_with('=')) return set(*flag, letters.substr(1));
                TRY(set(*flag, "true"));
                continue;
            }
            if (letters.empty()) return take_value(*flag);
            return set(*flag, letters.substr(letters.front() == '=' ? 1 : 0));
        }
        return {};
    }

    Result<void> take_value(const Flag& flag) {
        if (next_ == args_.size())
            return base::make_error(ErrorCode::kInvalidArgument, "flag --{} needs a value: --{} {}",
                                    flag.name, flag.name, flag.value);
        return set(flag, args_[next_++]);
    }

    Result<void> set(const Flag& flag, std::string_view value) {
        if (flag.value.empty() && !is_true(value) && !is_false(value))
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "invalid value '{}' for --{}: true or false is needed", value, flag.name);
        auto& values = result_.values_[std::string(flag.name)];
        if (!flag.repeats) values.clear();
        values.emplace_back(value);
        return {};
    }

    Error unknown(std::string_view name) const {
        std::vector<std::string_view> names;
        for (const Flag& flag : flags_) names.push_back(flag.name);
        const std::string_view near = nearest(name, names);
        return base::make_error(ErrorCode::kInvalidArgument, "unknown flag: --{}{}", name,
                                near.empty() ? "" : fmt::format(" (did you mean --{}?)", near));
    }

    std::span<const Flag> flags_;
    std::span<const std::string> args_;
    size_t next_ = 0;
    Arguments result_;
};

Result<Arguments> parse_arguments(std::span<const Flag> flags, Operands style,
                                  std::span<const std::string> args) {
    return ArgumentParser(flags, args).parse(style);
}

}  // namespace boxlite::cli
