#include "image/auth.h"

#include <algorithm>

#include "base/base64.h"
#include "image/backoff.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

// RFC 9110 token characters.
bool is_token(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

class HeaderScanner {
  public:
    explicit HeaderScanner(std::string_view text) : text_(text) {}
    bool done() const { return text_.empty(); }
    void skip(std::string_view characters) {
        while (!text_.empty() && characters.find(text_[0]) != std::string_view::npos) text_.remove_prefix(1);
    }
    bool take(char c) {
        if (text_.empty() || text_[0] != c) return false;
        text_.remove_prefix(1);
        return true;
    }
    std::string token() {
        size_t n = 0;
        while (n < text_.size() && is_token(text_[n])) ++n;
        std::string found(text_.substr(0, n));
        text_.remove_prefix(n);
        return found;
    }
    // A token or a quoted string; nullopt when the quote is not closed.
    std::optional<std::string> value() {
        if (!take('"')) return token();
        std::string found;
        while (!text_.empty()) {
            char c = text_[0];
            text_.remove_prefix(1);
            if (c == '"') return found;
            if (c == '\\' && !text_.empty()) {
                c = text_[0];
                text_.remove_prefix(1);
            }
            found += c;
        }
        return std::nullopt;
    }

  private:
    std::string_view text_;
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

std::string basic(const std::string& username, const std::string& password) {
    return "Basic " + base::base64_encode(username + ":" + password);
}

std::string parameter(const Challenge& challenge, const std::string& name) {
    const auto it = challenge.parameters.find(name);
    return it == challenge.parameters.end() ? "" : it->second;
}

Error refused(const AuthTarget& target, std::string_view reason) {
    return base::make_error(
        ErrorCode::kImage,
        "registry {} does not give access to '{}': {}; check the name, or log in with 'docker login {}'",
        target.registry, target.repository, reason, target.registry);
}

}  // namespace

std::vector<Challenge> parse_challenges(std::string_view header) {
    std::vector<Challenge> challenges;
    HeaderScanner scan(header);
    for (;;) {
        scan.skip(" \t,");
        const std::string word = lower(scan.token());
        if (word.empty()) return challenges;
        scan.skip(" \t");
        if (!scan.take('=')) {
            challenges.push_back({word, {}});
            continue;
        }
        scan.skip(" \t");
        auto value = scan.value();
        if (challenges.empty() || !value) return challenges;
        challenges.back().parameters.emplace(word, std::move(*value));
    }
}

std::string Authenticator::known(const AuthTarget& target) {
    if (const auto* bearer = std::get_if<AuthBearer>(&target.config.auth)) return "Bearer " + bearer->token;
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(target.registry + "/" + target.repository);
    if (it == known_.end() || it->second.expires <= std::chrono::steady_clock::now()) return "";
    return it->second.authorization;
}

Result<std::optional<Credentials>> Authenticator::credentials_for(const AuthTarget& target) const {
    if (const auto* given = std::get_if<AuthBasic>(&target.config.auth))
        return std::optional(Credentials{.username = given->username, .password = given->password});
    if (!std::holds_alternative<AuthFromDockerConfig>(target.config.auth))
        return std::optional<Credentials>();
    const std::string folder =
        options_.docker_config.empty() ? default_docker_config_folder() : options_.docker_config;
    return find_docker_credentials(folder, target.registry);
}

Result<std::string> Authenticator::answer(const AuthTarget& target, const std::string& www_authenticate,
                                          const std::string& rejected, const std::stop_token& stop) {
    if (std::holds_alternative<AuthBearer>(target.config.auth))
        return refused(target, "the given token was rejected");
    // Another thread may have got a fresh token meanwhile.
    if (std::string current = known(target); !current.empty() && current != rejected) return current;

    const auto credentials = TRY(credentials_for(target));
    if (credentials && !credentials->registry_token.empty()) {
        std::string authorization = "Bearer " + credentials->registry_token;
        if (authorization == rejected) return refused(target, "the stored token was rejected");
        return authorization;
    }
    const std::vector<Challenge> challenges = parse_challenges(www_authenticate);
    const auto offered = [&](std::string_view scheme) {
        return std::find_if(challenges.begin(), challenges.end(),
                            [&](const Challenge& c) { return c.scheme == scheme; });
    };
    Known fresh;
    if (const auto bearer = offered("bearer"); bearer != challenges.end()) {
        fresh = TRY(fetch_token(target, *bearer, credentials, stop));
    } else if (offered("basic") != challenges.end()) {
        if (!credentials || credentials->username.empty())
            return refused(target, "it wants a user name and a password");
        fresh = {basic(credentials->username, credentials->password),
                 std::chrono::steady_clock::time_point::max()};
    } else {
        return refused(target, fmt::format("it wants an unknown kind of authentication: '{}'",
                                           www_authenticate.substr(0, 200)));
    }
    if (fresh.authorization == rejected)
        return refused(target,
                       credentials ? "the user name or the password is wrong" : "it wants authentication");
    const std::lock_guard lock(mutex_);
    known_[target.registry + "/" + target.repository] = fresh;
    return fresh.authorization;
}

HttpOutcome Authenticator::ask(HttpRequest request, const std::stop_token& stop) {
    request.connect_timeout = options_.connect_timeout;
    request.stall_timeout = options_.stall_timeout;
    request.max_body = size_t{1} << 20;
    request.stop = stop;
    Backoff backoff(options_.retries, options_.retry_delay);
    for (;;) {
        HttpOutcome outcome = http_.perform(request);
        if (!outcome.transient || !backoff.wait(outcome.response.retry_after, stop)) return outcome;
    }
}

Result<Authenticator::Known> Authenticator::fetch_token(const AuthTarget& target, const Challenge& challenge,
                                                        const std::optional<Credentials>& credentials,
                                                        const std::stop_token& stop) {
    const std::string realm = parameter(challenge, "realm");
    const std::string service = parameter(challenge, "service");
    std::string scope = parameter(challenge, "scope");
    if (scope.empty()) scope = fmt::format("repository:{}:pull", target.repository);
    if (origin_of(realm).empty())
        return refused(target, fmt::format("its token server '{}' is no http(s) URL", realm));
    if (target.https && !realm.starts_with("https:"))
        return refused(target, fmt::format("its token server '{}' is not reached by https", realm));

    HttpRequest request{.skip_verify = target.config.skip_verify, .ca_file = target.config.ca_file};
    if (credentials && !credentials->identity_token.empty()) {
        request.method = HttpRequest::Method::kPost;
        request.url = realm;
        request.form =
            fmt::format("grant_type=refresh_token&client_id=boxlite&service={}&scope={}&refresh_token={}",
                        url_encode(service), url_encode(scope), url_encode(credentials->identity_token));
    } else {
        request.url =
            fmt::format("{}{}service={}&scope={}", realm, realm.find('?') == std::string::npos ? '?' : '&',
                        url_encode(service), url_encode(scope));
        if (credentials) {
            request.url += "&account=" + url_encode(credentials->username);
            request.authorization = basic(credentials->username, credentials->password);
        }
    }
    const HttpOutcome outcome = ask(std::move(request), stop);
    if (outcome.fault) return Error(*outcome.fault).with_context("token server of " + target.registry);
    if (outcome.response.status == 401 || outcome.response.status == 403)
        return refused(target,
                       credentials ? "the user name or the password is wrong" : "it wants authentication");
    if (outcome.response.status != 200)
        return base::make_error(ErrorCode::kNetwork, "token server {} of registry {} answers with status {}",
                                origin_of(realm), target.registry, outcome.response.status);

    const auto value = TRY(json::parse(outcome.response.body, "the answer of " + realm, ErrorCode::kNetwork));
    const json::Reader root(value, "token", ErrorCode::kNetwork);
    std::string token = TRY(root.string_or("token", ""));
    if (token.empty()) token = TRY(root.string_or("access_token", ""));
    if (token.empty() || token.find_first_of("\r\n") != std::string::npos)
        return root.error("is missing from the answer");
    // The specification's default and minimum; a little less, so as not to be late.
    const int64_t seconds =
        std::clamp<int64_t>(TRY(root.integer_or("expires_in", 60)), 60, int64_t{24} * 3600);
    return Known{"Bearer " + token, std::chrono::steady_clock::now() + std::chrono::seconds(seconds - 10)};
}

}  // namespace boxlite::image
