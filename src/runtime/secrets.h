// The secrets of a box on the host's side: what is recorded of them, and how their values come to the one
// process that has them. No value is ever in a record, a file or a message to the supervisor.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "boxlite/options.h"
#include "runtime/box_record.h"
#include "runtime/home.h"

namespace boxlite {
class BoxImpl;
}

namespace boxlite::runtime {

// Values by the secret's name, overwritten when they go.
class SecretValues {
  public:
    SecretValues() = default;
    SecretValues(const SecretValues&) = delete;
    SecretValues& operator=(const SecretValues&) = delete;
    ~SecretValues() { clear(); }

    void set(const std::string& name, const std::string& value);
    const std::map<std::string, std::string>& all() const { return values_; }
    bool has(const std::string& name) const { return values_.contains(name); }
    void clear();

  private:
    std::map<std::string, std::string> values_;
};

// Those that came with a new box's options, until its first start takes them. Thread safe.
class GivenSecrets {
  public:
    void give(const std::vector<Secret>& secrets);
    // Moves them over; nothing is left here.
    void take(SecretValues& into);

  private:
    std::mutex mutex_;
    SecretValues values_;
};

// kInvalidArgument for a secret that is none, or a name that is there twice.
Result<std::vector<SecretRecord>> secret_records(const std::vector<Secret>& secrets);
// For BoxInfo: without values.
std::vector<Secret> describe_secrets(const std::vector<SecretRecord>& records);

// Whether the box's TLS connections may have to be looked into.
bool needs_interception(const BoxConfig& config);
// The certificate authorities that were added to this host, as PEM.
std::string added_authorities();

// What the programs of the box find in their environment besides what was asked for.
void add_secret_variables(const BoxConfig& config, std::vector<std::string>& env);

// Values for a start: `options` goes before what was given at creation, and that before variables and files.
// kInvalidArgument names a secret that has none, unless `may_lack`.
Result<void> find_values(const BoxImpl& box, const BoxConfig& config, const StartOptions& options,
                         bool may_lack, SecretValues& values);
// To the box's process that has them; it runs.
Result<void> send_values(const BoxFolder& folder, const SecretValues& values);

// See Box::set_secrets.
Result<void> set_secrets(const BoxImpl& box, const std::vector<SecretValue>& values);

}  // namespace boxlite::runtime
