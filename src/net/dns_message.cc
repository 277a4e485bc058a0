#include "net/dns_message.h"

#include <arpa/nameser.h>
#include <fmt/format.h>
#include <resolv.h>

#include <algorithm>

namespace boxlite::net::dns {

namespace {

constexpr uint16_t kFlagAnswer = 0x8000, kFlagRecursionAvailable = 0x0080, kFlagRecursionDesired = 0x0100;
constexpr uint16_t kOpcodeMask = 0x7800;
constexpr uint16_t kPointerToQuestion = 0xc000 | kHeaderBytes;
constexpr uint16_t kOpt = 41;
constexpr uint16_t kUdpPayload = 4096;
constexpr uint32_t kTtl = 60;

class Writer {
  public:
    Writer(base::ByteView query, const Question& question, ResponseCode code, uint16_t answers) {
        bytes_.assign(query.begin(), query.begin() + static_cast<ptrdiff_t>(question.end));
        const auto asked = base::load_be<uint16_t>(query.data() + 2);
        const auto flags = static_cast<uint16_t>(kFlagAnswer | kFlagRecursionAvailable |
                                                 (asked & (kFlagRecursionDesired | kOpcodeMask)) |
                                                 static_cast<uint16_t>(code));
        base::store_be(bytes_.data() + 2, flags);
        base::store_be<uint16_t>(bytes_.data() + 6, answers);
        base::store_be<uint16_t>(bytes_.data() + 8, 0);
        base::store_be<uint16_t>(bytes_.data() + 10, question.extended);
    }
    void record(const Question& question, base::ByteView data) {
        put<uint16_t>(kPointerToQuestion);
        put(question.type);
        put(question.record_class);
        put(kTtl);
        put(static_cast<uint16_t>(data.size()));
        bytes_.insert(bytes_.end(), data.begin(), data.end());
    }
    base::Bytes finish(const Question& question) {
        if (question.extended) {
            bytes_.push_back(0);
            put(kOpt);
            put(kUdpPayload);
            put<uint32_t>(0);
            put<uint16_t>(0);
        }
        return std::move(bytes_);
    }

  private:
    template <typename T>
    void put(T value) {
        bytes_.resize(bytes_.size() + sizeof value);
        base::store_be(bytes_.data() + bytes_.size() - sizeof value, value);
    }
    base::Bytes bytes_;
};

// The labels as text. Names with bytes that need escapes are nobody's host, and are kept as libresolv
// writes them.
std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (text.ends_with('.')) text.pop_back();
    return text;
}

bool has_opt(ns_msg& message) {
    for (int i = 0; i < ns_msg_count(message, ns_s_ar); ++i) {
        ns_rr record;
        if (::ns_parserr(&message, ns_s_ar, i, &record) == 0 && ns_rr_type(record) == kOpt) return true;
    }
    return false;
}

}  // namespace

std::optional<Question> parse_question(base::ByteView message, bool answer) {
    if (message.size() < kHeaderBytes || message.size() > kMaxMessage) return std::nullopt;
    ns_msg parsed;
    if (::ns_initparse(message.data(), static_cast<int>(message.size()), &parsed) < 0) return std::nullopt;
    if (static_cast<bool>(ns_msg_getflag(parsed, ns_f_qr)) != answer ||
        ns_msg_getflag(parsed, ns_f_opcode) != ns_o_query || ns_msg_count(parsed, ns_s_qd) != 1)
        return std::nullopt;
    ns_rr record;
    if (::ns_parserr(&parsed, ns_s_qd, 0, &record) < 0) return std::nullopt;
    Question question;
    question.id = ns_msg_id(parsed);
    question.name = lower(ns_rr_name(record));
    question.type = ns_rr_type(record);
    question.record_class = ns_rr_class(record);
    const int name = ::dn_skipname(message.data() + kHeaderBytes, message.data() + message.size());
    if (name < 0) return std::nullopt;
    question.end = kHeaderBytes + static_cast<size_t>(name) + 4;
    question.extended = has_opt(parsed);
    return question;
}

std::optional<std::vector<IpAddress>> addresses(base::ByteView answer) {
    ns_msg parsed;
    if (::ns_initparse(answer.data(), static_cast<int>(answer.size()), &parsed) < 0) return std::nullopt;
    std::vector<IpAddress> found;
    for (int i = 0; i < ns_msg_count(parsed, ns_s_an); ++i) {
        ns_rr record;
        if (::ns_parserr(&parsed, ns_s_an, i, &record) < 0) return std::nullopt;
        if (ns_rr_class(record) != kInternet) continue;
        const size_t expected = ns_rr_type(record) == kA ? 4 : ns_rr_type(record) == kAaaa ? 16 : 0;
        if (expected == 0) continue;
        if (ns_rr_rdlen(record) != expected) return std::nullopt;
        found.emplace_back(base::ByteView(ns_rr_rdata(record), expected));
    }
    return found;
}

base::Bytes make_answer(base::ByteView query, const Question& question, ResponseCode code) {
    return Writer(query, question, code, 0).finish(question);
}

base::Bytes make_answer(base::ByteView query, const Question& question, const std::vector<IpAddress>& found) {
    std::vector<IpAddress> fitting;
    for (const IpAddress& address : found)
        if (question.type == (address.is_v4() ? kA : kAaaa)) fitting.push_back(address);
    Writer writer(query, question, ResponseCode::kNoError, static_cast<uint16_t>(fitting.size()));
    for (const IpAddress& address : fitting) writer.record(question, address.bytes());
    return writer.finish(question);
}

base::Bytes make_pointer(base::ByteView query, const Question& question, const std::string& name) {
    uint8_t encoded[NS_MAXCDNAME];
    const int length = ::ns_name_pton(name.c_str(), encoded, sizeof encoded) < 0
                           ? -1
                           : ::dn_skipname(encoded, encoded + sizeof encoded);
    if (length < 0) return make_answer(query, question, ResponseCode::kNameError);
    Writer writer(query, question, ResponseCode::kNoError, 1);
    writer.record(question, {encoded, static_cast<size_t>(length)});
    return writer.finish(question);
}

std::optional<IpAddress> reverse_address(const std::string& name) {
    constexpr std::string_view kV4 = ".in-addr.arpa", kV6 = ".ip6.arpa";
    const bool v4 = name.ends_with(kV4);
    if (!v4 && !name.ends_with(kV6)) return std::nullopt;
    std::vector<std::string> labels;
    const std::string rest = name.substr(0, name.size() - (v4 ? kV4 : kV6).size());
    for (size_t start = 0; start <= rest.size();) {
        const size_t end = std::min(rest.find('.', start), rest.size());
        labels.push_back(rest.substr(start, end - start));
        start = end + 1;
    }
    std::reverse(labels.begin(), labels.end());
    if (labels.size() != (v4 ? 4u : 32u)) return std::nullopt;
    if (v4) return IpAddress::parse(fmt::format("{}", fmt::join(labels, ".")));
    std::string text;
    for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i].size() != 1) return std::nullopt;
        text += (i > 0 && i % 4 == 0 ? ":" : "") + labels[i];
    }
    return IpAddress::parse(text);
}

}  // namespace boxlite::net::dns
