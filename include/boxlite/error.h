// What a failed call reports: a code a program can act on and a sentence a person can act on.
// Thread safety: values; share nothing.
#pragma once

#include <string>
#include <string_view>

namespace boxlite {

// The numbers are part of the C ABI and of the REST error table; they never change.
enum class ErrorCode : int {
    kInternal = 1,
    kNotFound = 2,
    kAlreadyExists = 3,
    kInvalidState = 4,
    kInvalidArgument = 5,
    kConfig = 6,
    kStorage = 7,
    kImage = 8,
    kNetwork = 9,
    kExecution = 10,
    kStopped = 11,
    kEngine = 12,
    kUnsupported = 13,
    kDatabase = 14,
    kPortal = 15,  // the connection to a box's supervisor or agent
    kRpc = 16,
    kRpcTransport = 17,
    kMetadata = 18,
    kUnsupportedEngine = 19,
    kResourceExhausted = 20,
    kSessionReaped = 21,
};

// snake_case name as used in JSON and logs, for instance "invalid_argument".
std::string_view error_code_name(ErrorCode code);

// `message` says what was attempted, on what, why it failed and, where there is one, the way out.
struct [[nodiscard]] Error {
    ErrorCode code = ErrorCode::kInternal;
    std::string message;

    // "cannot <what>: <strerror(errnum)>", for a failed system call.
    static Error from_errno(ErrorCode code, std::string_view what, int errnum);

    // The same error with "<prefix>: " put in front of its message.
    Error with_context(std::string_view prefix) &&;
};

}  // namespace boxlite
