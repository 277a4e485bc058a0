#include "cli/secret_flags.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/file.h"

namespace boxlite::cli {

namespace {

constexpr size_t kMaxSecretInput = 64 << 10;

Error bad(std::string_view text, std::string_view why) {
    // Not the text itself: there may be a value in it.
    return base::make_error(ErrorCode::kInvalidArgument, "invalid value for --secret {}: {}",
                            text.substr(0, text.find_first_of("@=,")), why);
}

std::string without_line_end(std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    return text;
}

Result<std::string> read_stdin() {
    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return base::errno_error(ErrorCode::kInvalidArgument, "read a secret from standard input");
        if (n == 0) return without_line_end(std::move(text));
        text.append(buffer, static_cast<size_t>(n));
        if (text.size() > kMaxSecretInput)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "what comes on standard input is too long for a secret");
    }
}

// An item with its "=", of the list behind the name. False: it is none of the options, and what follows is a
// value.
Result<bool> take_option(std::string_view key, std::string_view value, std::string_view text,
                         Secret& secret) {
    if (value.empty() && (key == "env" || key == "file" || key == "placeholder"))
        return bad(text, fmt::format("'{}=' needs something behind it", key));
    if (key == "env")
        secret.env = value;
    else if (key == "file")
        secret.file = std::filesystem::absolute(std::string(value)).lexically_normal();
    else if (key == "placeholder")
        secret.placeholder = value;
    else
        return false;
    return true;
}

Result<void> take_word(std::string_view word, std::string_view text, Secret& secret) {
    if (word == "query")
        secret.in_query = true;
    else if (word == "stdin")
        secret.value = TRY(read_stdin());
    else if (word.empty())
        return bad(text, "a comma has nothing before or behind it");
    else
        secret.hosts.emplace_back(word);
    return {};
}

Result<Secret> parse(std::string_view text) {
    Secret secret;
    const size_t name_end = std::min(text.find_first_of("@=,"), text.size());
    secret.name = text.substr(0, name_end);
    if (secret.name.empty()) return bad(text, "a name is needed");
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('=')) {
        secret.value = rest.substr(1);
        if (secret.value.empty()) return bad(text, "the value is empty");
        return secret;
    }
    if (rest == "@") return bad(text, "a host is needed behind '@'");
    while (!rest.empty()) {
        rest.remove_prefix(1);  // '@' or ','
        const size_t end = std::min(rest.find(','), rest.size());
        const std::string_view item = rest.substr(0, end);
        const size_t equals = item.find('=');
        if (equals == std::string_view::npos) {
            TRY(take_word(item, text, secret));
        } else if (!TRY(take_option(item.substr(0, equals), item.substr(equals + 1), text, secret))) {
            TRY(take_word(item.substr(0, equals), text, secret));
            secret.value = rest.substr(equals + 1);
            if (secret.value.empty()) return bad(text, "the value is empty");
            break;
        }
        rest.remove_prefix(end);
    }
    const int sources = !secret.value.empty() + !secret.env.empty() + !secret.file.empty();
    if (sources > 1) return bad(text, "only one of a value, env, file and stdin can be given");
    if (sources == 0) secret.env = secret.name;
    return secret;
}

}  // namespace

Flag new_secret_flag() {
    return {0, "secret", "NAME@HOST[,HOST...][=VALUE]",
            "a value that programs use by $BOXLITE_SECRET_NAME and only its hosts get to see; with "
            ",env=VARIABLE ,file=PATH "
            "or ,stdin in place of =VALUE (else the variable NAME), and ,query for URLs' queries too",
            true};
}

Flag secret_value_flag() {
    return {0, "secret", "NAME[=VALUE]",
            "the value of a secret; ,env=VARIABLE ,file=PATH or ,stdin in place of =VALUE (else the variable "
            "NAME)",
            true};
}

Result<Secret> parse_secret(const std::string& text) {
    Secret secret = TRY(parse(text));
    if (secret.hosts.empty()) return bad(text, "the hosts that get it are needed: NAME@HOST");
    return secret;
}

Result<SecretValue> parse_secret_value(const std::string& text) {
    Secret secret = TRY(parse(text));
    if (!secret.hosts.empty() || !secret.placeholder.empty() || secret.in_query)
        return bad(text, "hosts, placeholder and query were decided when the box was made");
    if (!secret.file.empty())
        secret.value =
            without_line_end(TRY_CONTEXT(base::read_file(secret.file, kMaxSecretInput), "--secret"));
    if (!secret.env.empty()) {
        const char* value = std::getenv(secret.env.c_str());
        if (!value) return bad(text, fmt::format("the variable {} is not set", secret.env));
        secret.value = value;
    }
    return SecretValue{secret.name, secret.value};
}

Result<std::vector<Secret>> new_secrets(const Arguments& arguments) {
    std::vector<Secret> secrets;
    for (const std::string& text : arguments.values("secret")) secrets.push_back(TRY(parse_secret(text)));
    return secrets;
}

Result<std::vector<SecretValue>> secret_values(const Arguments& arguments) {
    std::vector<SecretValue> values;
    for (const std::string& text : arguments.values("secret"))
        values.push_back(TRY(parse_secret_value(text)));
    return values;
}

}  // namespace boxlite::cli
