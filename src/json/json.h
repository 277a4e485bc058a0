// Strict reading of JSON that comes from outside: bounded, no duplicate names, and errors that say where.
// Thread safety: readers refer to the value they were made from and share nothing else.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boxlite::json {

using Value = nlohmann::json;

struct Limits {
    size_t bytes = size_t{4} << 20;
    int depth = 64;
};

// RFC 8259 text to a value. Refused: more than the limits, invalid UTF-8, an object that names a member
// twice. `what` names the document in messages; every error here has `code`.
Result<Value> parse(std::string_view text, std::string_view what,
                    ErrorCode code = ErrorCode::kInvalidArgument, Limits limits = {});

// Text of a value; bytes that are not UTF-8 become U+FFFD. `indent` < 0: one line.
std::string dump(const Value& value, int indent = -1);

// A value and where it stands, for instance "manifest.layers[2].size". A member that is null counts as
// absent, as writers in Go produce it.
class Reader {
  public:
    // `value` must outlive the reader and those made from it.
    Reader(const Value& value, std::string path, ErrorCode code = ErrorCode::kInvalidArgument)
        : value_(&value), path_(std::move(path)), code_(code) {}

    const Value& value() const { return *value_; }
    const std::string& path() const { return path_; }

    Result<std::string> as_string() const;
    Result<int64_t> as_integer() const;
    Result<uint64_t> as_unsigned() const;
    Result<bool> as_bool() const;
    // The elements of an array, the members of an object.
    Result<std::vector<Reader>> as_array() const;
    Result<std::vector<std::pair<std::string, Reader>>> as_object() const;
    Result<std::vector<std::string>> as_strings() const;
    Result<std::map<std::string, std::string>> as_string_map() const;

    // A member of an object; nullopt when absent. The error is for a value that is no object.
    Result<std::optional<Reader>> find(std::string_view name) const;
    // A member that must be there.
    Result<Reader> at(std::string_view name) const;

    // Members with a default for absent ones: the common case of the calls above.
    Result<std::string> string_or(std::string_view name, std::string fallback) const;
    Result<int64_t> integer_or(std::string_view name, int64_t fallback) const;
    Result<bool> bool_or(std::string_view name, bool fallback) const;
    Result<std::vector<std::string>> strings_or_empty(std::string_view name) const;
    Result<std::map<std::string, std::string>> string_map_or_empty(std::string_view name) const;

    // For our own documents: refuses any member that is not listed.
    Result<void> allow_only(std::initializer_list<std::string_view> names) const;

    // An error about this value: "<path>: <reason>".
    Error error(std::string_view reason) const;

  private:
    Reader child(const Value& value, std::string_view name) const;
    Error wrong_type(std::string_view wanted) const;

    const Value* value_;
    std::string path_;
    ErrorCode code_;
};

}  // namespace boxlite::json
