// DNS messages (RFC 1035), as far as a forwarder has to understand them: the question, the addresses in an
// answer, and answers of its own. Parsing is libresolv's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/address.h"

namespace boxlite::net::dns {

inline constexpr size_t kHeaderBytes = 12;
inline constexpr size_t kMaxMessage = 65535;

// RFC 1035, 4.1.1.
enum class ResponseCode : uint8_t {
    kNoError = 0,
    kFormatError = 1,
    kServerFailure = 2,
    kNameError = 3,
    kNotImplemented = 4,
    kRefused = 5,
};
// Of records; the numbers are IANA's.
inline constexpr uint16_t kA = 1, kCname = 5, kPtr = 12, kAaaa = 28, kSvcb = 64, kHttps = 65, kAxfr = 252,
                          kAny = 255, kInternet = 1;

struct Question {
    uint16_t id = 0;
    std::string name;  // lower case, without the final dot; "" for the root
    uint16_t type = 0;
    uint16_t record_class = 0;
    size_t end = 0;         // of the question section, in the message
    bool extended = false;  // EDNS (RFC 6891)
};
// Of a query, or of the answer to one; nullopt unless it is one of the standard kind with one question.
std::optional<Question> parse_question(base::ByteView message, bool answer);

// The addresses in the answer section; nullopt when the message is malformed.
std::optional<std::vector<IpAddress>> addresses(base::ByteView answer);

// An answer to `query` with its question and nothing else.
base::Bytes make_answer(base::ByteView query, const Question& question, ResponseCode code);
// The same with records of the question's name: addresses of the type that was asked for.
base::Bytes make_answer(base::ByteView query, const Question& question, const std::vector<IpAddress>& found);
// The same with the name that belongs to an address.
base::Bytes make_pointer(base::ByteView query, const Question& question, const std::string& name);

// The address that a name below in-addr.arpa or ip6.arpa is about.
std::optional<IpAddress> reverse_address(const std::string& name);

}  // namespace boxlite::net::dns
