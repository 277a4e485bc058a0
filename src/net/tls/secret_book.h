// The secrets of a box with their values, in the one process that has them: puts them into requests in place
// of the placeholders, and takes them out of answers. Thread safety: the loop's thread.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "net/placeholders.h"
#include "net/tls/scrubber.h"

namespace boxlite::net::tls {

class SecretBook {
  public:
    // Encoded forms of values that are kept to be taken out of answers.
    static constexpr size_t kMaxForms = 256;

    explicit SecretBook(std::vector<SecretName> names);
    ~SecretBook();
    SecretBook(const SecretBook&) = delete;
    SecretBook& operator=(const SecretBook&) = delete;

    const Placeholders& names() const { return names_; }

    // In place of the values they have. All or none: kNotFound for a name that there is not; see also
    // check_secret_value().
    Result<void> set(const std::vector<std::pair<std::string, std::string>>& values);

    // Put values in place of placeholders, in a request to `host`. "" when all is well, else why the request
    // may not go out; `value` and `target` may then be half done.
    std::string fill_field(std::string_view host, std::string& value);
    std::string fill_target(std::string_view host, std::string& target);

    // What is to become what in answers.
    const std::vector<Replacement>& scrubs() const { return scrubs_; }

  private:
    struct Entry {
        std::string value;     // empty: none
        std::string previous;  // which may still be valid
    };
    std::string fill(std::string_view host, std::string& text);
    std::string check(std::string_view host, const SecretName& secret) const;
    void collect_scrubs();

    Placeholders names_;
    std::vector<Entry> entries_;  // as names_.all()
    std::vector<Replacement> scrubs_;
    std::deque<Replacement> forms_;  // of credentials that went out
};

}  // namespace boxlite::net::tls
