#include "runtime/box_record.h"

#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/result.h"

namespace boxlite {

// In the order of BoxStatus.
static constexpr std::array<std::string_view, 7> kStatusNames = {
    "configured", "running", "paused", "stopping", "stopped", "failed", "unknown"};

std::string_view box_status_name(BoxStatus status) {
    return kStatusNames[static_cast<size_t>(status)];
}

}  // namespace boxlite

namespace boxlite::runtime {

namespace {

using Json = nlohmann::json;

// Walks the members of a record once for both directions, so that they cannot drift apart.
template <typename Config, typename Visit>
void visit_config(Config& c, Visit&& visit) {
    visit("id", c.id);
    visit("name", c.name);
    visit("created_at", c.created_at);
    visit("image", c.image);
    visit("image_id", c.image_id);
    visit("base", c.base);
    visit("cpus", c.cpus);
    visit("memory_mib", c.memory_mib);
    visit("disk_bytes", c.disk_bytes);
    visit("engine", c.engine);
    visit("isolation", c.isolation);
    visit("engine_reason", c.engine_reason);
    visit("engine_fixed", c.engine_fixed);
    visit("strict", c.strict);
    visit("env", c.env);
    visit("working_dir", c.working_dir);
    visit("user", c.user);
    visit("hostname", c.hostname);
    visit("argv", c.argv);
    visit("stop_signal", c.stop_signal);
    visit("tty", c.tty);
    visit("stdin_open", c.stdin_open);
    visit("cap_add", c.cap_add);
    visit("cap_drop", c.cap_drop);
    visit("privileged", c.privileged);
    visit("huge_pages", c.huge_pages);
    visit("network", c.network);
    visit("private_network", c.private_network);
    visit("private_address", c.private_address);
    visit("private_address6", c.private_address6);
    visit("has_allow_net", c.has_allow_net);
    visit("allow_net", c.allow_net);
    visit("deny_net", c.deny_net);
    visit("ports", c.ports);
    visit("send_kbps", c.send_kbps);
    visit("receive_kbps", c.receive_kbps);
    visit("secrets", c.secrets);
    visit("trust_host_ca", c.trust_host_ca);
    visit("detach", c.detach);
    visit("auto_remove", c.auto_remove);
}

template <typename Secret, typename Visit>
void visit_secret(Secret& s, Visit&& visit) {
    visit("name", s.name);
    visit("placeholder", s.placeholder);
    visit("hosts", s.hosts);
    visit("in_query", s.in_query);
    visit("env", s.env);
    visit("file", s.file);
}

template <typename State, typename Visit>
void visit_state(State& s, Visit&& visit) {
    visit("status", s.status);
    visit("started_at", s.started_at);
    visit("finished_at", s.finished_at);
    visit("exit_code", s.exit_code);
    visit("reason", s.reason);
    visit("boot_id", s.boot_id);
}

// Arguments and environment are bytes, JSON strings are UTF-8: a string that is not UTF-8 is kept as an array
// of its bytes.
bool is_utf8(const std::string& text) {
    size_t i = 0;
    while (i < text.size()) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const size_t length = lead < 0x80       ? 1
                              : lead >> 5 == 6  ? 2
                              : lead >> 4 == 14 ? 3
                              : lead >> 3 == 30 ? 4
                                                : 0;
        if (length == 0 || i + length > text.size()) return false;
        uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
        for (size_t k = 1; k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            if (next >> 6 != 2) return false;
            code = code << 6 | (next & 0x3f);
        }
        constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
        if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
        i += length;
    }
    return true;
}

Json text_to_json(const std::string& text) {
    if (is_utf8(text)) return text;
    Json bytes = Json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
}

bool text_from_json(const Json& json, std::string& text) {
    if (const auto* string = json.get_ptr<const std::string*>()) {
        text = *string;
        return true;
    }
    if (!json.is_array()) return false;
    text.clear();
    for (const Json& byte : json) {
        if (!byte.is_number_unsigned() || byte.get<uint64_t>() > 255) return false;
        text.push_back(static_cast<char>(byte.get<uint8_t>()));
    }
    return true;
}

struct Writer {
    Json json = Json::object();

    void operator()(const char* key, const std::string& v) { json[key] = text_to_json(v); }
    void operator()(const char* key, const std::vector<std::string>& v) {
        Json& list = json[key] = Json::array();
        for (const std::string& item : v) list.push_back(text_to_json(item));
    }
    void operator()(const char* key, const std::vector<SecretRecord>& v) {
        Json& list = json[key] = Json::array();
        for (const SecretRecord& secret : v) {
            Writer writer;
            visit_secret(secret, writer);
            list.push_back(std::move(writer.json));
        }
    }
    void operator()(const char* key, BoxStatus v) { json[key] = box_status_name(v); }
    void operator()(const char* key, std::optional<int> v) {
        if (v) json[key] = *v;
    }
    template <typename T>
    requires std::is_arithmetic_v<T>
    void operator()(const char* key, T v) { json[key] = v; }
};

struct Reader {
    const Json& json;
    std::string damaged;  // the first member of a wrong type

    template <typename T>
    void operator()(const char* key, T& v) {
        const auto found = json.find(key);
        if (found != json.end() && !read(*found, v) && damaged.empty()) damaged = key;
    }

    static bool read(const Json& item, std::string& v) { return text_from_json(item, v); }
    static bool read(const Json& item, std::vector<std::string>& v) {
        if (!item.is_array()) return false;
        v.resize(item.size());
        for (size_t i = 0; i < v.size(); ++i)
            if (!text_from_json(item[i], v[i])) return false;
        return true;
    }
    static bool read(const Json& item, std::vector<SecretRecord>& v) {
        if (!item.is_array()) return false;
        v.resize(item.size());
        for (size_t i = 0; i < v.size(); ++i) {
            Reader reader{item[i], {}};
            if (!item[i].is_object()) return false;
            visit_secret(v[i], reader);
            if (!reader.damaged.empty()) return false;
        }
        return true;
    }
    static bool read(const Json& item, BoxStatus& v) {
        const auto* name = item.get_ptr<const std::string*>();
        for (size_t i = 0; name && i < kStatusNames.size(); ++i) {
            if (kStatusNames[i] != *name) continue;
            v = static_cast<BoxStatus>(i);
            return true;
        }
        return false;
    }
    static bool read(const Json& item, std::optional<int>& v) {
        if (!item.is_number_integer()) return false;
        v = item.get<int>();
        return true;
    }
    static bool read(const Json& item, bool& v) {
        if (!item.is_boolean()) return false;
        v = item.get<bool>();
        return true;
    }
    template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) static bool read(const Json& item, T& v) {
        if (!item.is_number_integer()) return false;
        v = item.get<T>();
        return true;
    }
};

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> parse_object(const std::string& text, std::string_view what) {
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object())
        return base::make_error(ErrorCode::kMetadata, "the state database holds a damaged box {}", what);
    return json;
}

Result<void> check(const Reader& reader, std::string_view what) {
    if (reader.damaged.empty()) return {};
    return base::make_error(ErrorCode::kMetadata, "the state database holds a damaged box {}: '{}'", what,
                            reader.damaged);
}

}  // namespace

std::string encode(const BoxConfig& config) {
    Writer writer;
    visit_config(config, writer);
    return dump(writer.json);
}

std::string encode(const BoxState& state) {
    Writer writer;
    visit_state(state, writer);
    return dump(writer.json);
}

Result<BoxConfig> decode_config(const std::string& text) {
    const Json json = TRY(parse_object(text, "configuration"));
    Reader reader{json, {}};
    BoxConfig config;
    visit_config(config, reader);
    TRY(check(reader, "configuration"));
    return config;
}

Result<BoxState> decode_state(const std::string& text) {
    const Json json = TRY(parse_object(text, "state"));
    Reader reader{json, {}};
    BoxState state;
    visit_state(state, reader);
    TRY(check(reader, "state"));
    return state;
}

}  // namespace boxlite::runtime
