#include "runtime/secrets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "net/placeholders.h"
#include "net/policy.h"
#include "runtime/box_impl.h"
#include "runtime/process_settings.h"

namespace boxlite::runtime {

namespace {

constexpr std::chrono::milliseconds kSendBudget{15'000};
constexpr size_t kMaxAuthorities = 1 << 20;
// Where Debian and Alpine, and Fedora, take what is added to their own.
constexpr const char* kAddedAuthorities[] = {"/usr/local/share/ca-certificates",
                                             "/etc/pki/ca-trust/source/anchors"};

// As in agent/trust.h: all that the box trusts, and what was added to it.
constexpr const char* kTrustFile = "/etc/boxlite/ca-certificates.crt";
constexpr const char* kExtraTrustFile = "/etc/boxlite/ca.crt";
constexpr const char* kTrustVariables[] = {
    "SSL_CERT_FILE",  "CURL_CA_BUNDLE",    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO", "AWS_CA_BUNDLE",     "CARGO_HTTP_CAINFO",
    "PIP_CERT",       "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"};
constexpr const char* kExtraTrustVariables[] = {"NODE_EXTRA_CA_CERTS", "DENO_CERT"};

Result<void> read_source(const SecretRecord& secret, SecretValues& values) {
    if (!secret.env.empty()) {
        const char* value = std::getenv(secret.env.c_str());
        if (!value)
            return base::make_error(
                ErrorCode::kInvalidArgument,
                "secret {} is in the variable {}, which is not set here; set it, or give `--secret "
                "{}=VALUE`",
                secret.name, secret.env, secret.name);
        values.set(secret.name, value);
    } else if (!secret.file.empty()) {
        std::string value = TRY_CONTEXT(base::read_file(secret.file, net::kMaxSecret + 2),
                                        fmt::format("secret {}", secret.name));
        if (value.ends_with('\n')) value.pop_back();
        if (value.ends_with('\r')) value.pop_back();
        values.set(secret.name, value);
        net::wipe(value);
    } else {
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "secret {} has no value: values are not kept, so each start needs them; `boxlite start --secret "
            "{}=VALUE BOX`, with ,env=VARIABLE or ,file=PATH in place of =VALUE, gives it one",
            secret.name, secret.name);
    }
    return {};
}

}  // namespace

void SecretValues::set(const std::string& name, const std::string& value) {
    std::string& held = values_[name];
    net::wipe(held);
    held = value;
}

void SecretValues::clear() {
    for (auto& [name, value] : values_) net::wipe(value);
    values_.clear();
}

void GivenSecrets::give(const std::vector<Secret>& secrets) {
    const std::lock_guard lock(mutex_);
    for (const Secret& secret : secrets)
        if (!secret.value.empty()) values_.set(secret.name, secret.value);
}

void GivenSecrets::take(SecretValues& into) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : values_.all()) into.set(name, value);
    values_.clear();
}

Result<std::vector<SecretRecord>> secret_records(const std::vector<Secret>& secrets) {
    std::vector<SecretRecord> records;
    for (const Secret& secret : secrets) {
        net::SecretName name{secret.name, secret.placeholder, secret.hosts, secret.in_query};
        if (name.placeholder.empty()) name.placeholder = fmt::format("<BOXLITE_SECRET:{}>", secret.name);
        TRY(net::check_secret_name(name));
        if (!secret.value.empty()) TRY(net::check_secret_value(secret.name, secret.value));
        if (!secret.file.empty() && secret.file.front() != '/')
            return base::make_error(ErrorCode::kInvalidArgument, "secret {}: '{}' is no absolute path",
                                    secret.name, secret.file);
        const bool twice = std::any_of(records.begin(), records.end(), [&](const SecretRecord& other) {
            // One within another could not be told from it.
            return other.name == name.name || other.placeholder.find(name.placeholder) != std::string::npos ||
                   name.placeholder.find(other.placeholder) != std::string::npos;
        });
        if (twice)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "secret {}: name and placeholder have to differ from "
                                    "those of the other secrets",
                                    secret.name);
        records.push_back({name.name, name.placeholder, name.hosts, name.in_query, secret.env, secret.file});
    }
    return records;
}

std::vector<Secret> describe_secrets(const std::vector<SecretRecord>& records) {
    std::vector<Secret> secrets;
    secrets.reserve(records.size());
    for (const SecretRecord& record : records)
        secrets.push_back(
            {record.name, record.hosts, record.placeholder, record.in_query, {}, record.env, record.file});
    return secrets;
}

bool needs_interception(const BoxConfig& config) {
    if (!config.network) return false;
    if (!config.secrets.empty()) return true;
    const auto policy = net::Policy::parse(
        {config.has_allow_net ? std::optional(config.allow_net) : std::nullopt, config.deny_net});
    return policy.ok() && policy->has_https_rules();
}

std::string added_authorities() {
    std::string text;
    for (const char* folder : kAddedAuthorities) {
        std::error_code error;
        std::vector<std::string> paths;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
            if (entry.is_regular_file(error)) paths.push_back(entry.path().string());
        std::sort(paths.begin(), paths.end());
        for (const std::string& path : paths) {
            const auto file = base::read_file(path, kMaxAuthorities);
            if (!file.ok() || file->find("-----BEGIN CERTIFICATE-----") == std::string::npos) continue;
            text += *file;
            if (!text.ends_with('\n')) text += '\n';
        }
    }
    return text;
}

void add_secret_variables(const BoxConfig& config, std::vector<std::string>& env) {
    for (const SecretRecord& secret : config.secrets) {
        const std::string name = "BOXLITE_SECRET_" + secret.name;
        if (!has_variable(env, name)) set_variable(env, name, secret.placeholder);
    }
    if (!needs_interception(config) && !config.trust_host_ca) return;
    for (const char* name : kTrustVariables)
        if (!has_variable(env, name)) set_variable(env, name, kTrustFile);
    for (const char* name : kExtraTrustVariables)
        if (!has_variable(env, name)) set_variable(env, name, kExtraTrustFile);
}

Result<void> find_values(const BoxImpl& box, const BoxConfig& config, const StartOptions& options,
                         bool may_lack, SecretValues& values) {
    SecretValues given;
    box.given_secrets.take(given);
    for (const SecretValue& value : options.secrets) {
        const bool known = std::any_of(config.secrets.begin(), config.secrets.end(),
                                       [&](const SecretRecord& secret) { return secret.name == value.name; });
        if (!known)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "box '{}' has no secret {}: it was made without", config.name,
                                    value.name);
        given.set(value.name, value.value);
    }
    for (const SecretRecord& secret : config.secrets) {
        if (given.has(secret.name)) {
            values.set(secret.name, given.all().at(secret.name));
        } else if (auto read = read_source(secret, values); !read.ok()) {
            if (!may_lack) return read;
            continue;
        }
        TRY(net::check_secret_value(secret.name, values.all().at(secret.name)));
    }
    return {};
}

Result<void> send_values(const BoxFolder& folder, const SecretValues& values) {
    rpc::Client client(TRY(base::connect_unix(folder.secrets_socket())));
    client.forget_what_is_sent();
    v1::SecretValues message;
    for (const auto& [name, value] : values.all()) {
        v1::SecretValue& added = *message.add_values();
        added.set_name(name);
        added.set_value(value);
    }
    const auto answer = client.call<v1::Empty>("boxlite.v1.Secrets", "Set", message, kSendBudget);
    for (v1::SecretValue& value : *message.mutable_values()) net::wipe(*value.mutable_value());
    return answer.ok() ? Result<void>() : Result<void>(answer.error());
}

Result<void> set_secrets(const BoxImpl& box, const std::vector<SecretValue>& values) {
    const base::FileLock lock = TRY(lock_changes(box));
    const BoxConfig config = TRY(box.runtime->state->box_by_id(box.config.id)).config;
    if (config.secrets.empty())
        return base::make_error(ErrorCode::kNotFound, "box '{}' has no secrets: it was made without",
                                config.name);
    TRY(running(box));
    SecretValues wanted;
    for (const SecretValue& value : values) {
        TRY(net::check_secret_value(value.name, value.value));
        wanted.set(value.name, value.value);
    }
    return send_values(box.folder, wanted);
}

}  // namespace boxlite::runtime
