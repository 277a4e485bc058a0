// Errors on the wire. A status carries the gRPC code that fits best, for foreign peers, and our own code
// as a detail, so that an ErrorCode comes out of a call as it went in.
#pragma once

#include <cstdint>
#include <optional>

#include "boxlite/error.h"

namespace boxlite::rpc {

// The canonical codes of gRPC.
enum class StatusCode : int32_t {
    kOk = 0,
    kCancelled = 1,
    kUnknown = 2,
    kInvalidArgument = 3,
    kDeadlineExceeded = 4,
    kNotFound = 5,
    kAlreadyExists = 6,
    kPermissionDenied = 7,
    kResourceExhausted = 8,
    kFailedPrecondition = 9,
    kAborted = 10,
    kOutOfRange = 11,
    kUnimplemented = 12,
    kInternal = 13,
    kUnavailable = 14,
    kDataLoss = 15,
    kUnauthenticated = 16,
};

StatusCode to_status(ErrorCode code);

// For a peer that sends no detail. Precondition: `status` is not kOk.
ErrorCode from_status(int32_t status);

// The code with that number, if there is one.
std::optional<ErrorCode> error_code_from_number(uint64_t number);

}  // namespace boxlite::rpc
