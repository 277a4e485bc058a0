#include "rpc/status.h"

namespace boxlite::rpc {

StatusCode to_status(ErrorCode code) {
    switch (code) {
        case ErrorCode::kNotFound:
            return StatusCode::kNotFound;
        case ErrorCode::kAlreadyExists:
            return StatusCode::kAlreadyExists;
        case ErrorCode::kInvalidState:
        case ErrorCode::kStopped:
        case ErrorCode::kSessionReaped:
            return StatusCode::kFailedPrecondition;
        case ErrorCode::kInvalidArgument:
        case ErrorCode::kConfig:
            return StatusCode::kInvalidArgument;
        case ErrorCode::kExecution:
            return StatusCode::kPermissionDenied;
        case ErrorCode::kUnsupported:
        case ErrorCode::kUnsupportedEngine:
            return StatusCode::kUnimplemented;
        case ErrorCode::kResourceExhausted:
            return StatusCode::kResourceExhausted;
        case ErrorCode::kNetwork:
        case ErrorCode::kPortal:
        case ErrorCode::kRpcTransport:
            return StatusCode::kUnavailable;
        case ErrorCode::kRpc:
            return StatusCode::kDeadlineExceeded;
        case ErrorCode::kInternal:
        case ErrorCode::kStorage:
        case ErrorCode::kImage:
        case ErrorCode::kEngine:
        case ErrorCode::kDatabase:
        case ErrorCode::kMetadata:
            return StatusCode::kInternal;
    }
    return StatusCode::kUnknown;
}

ErrorCode from_status(int32_t status) {
    switch (static_cast<StatusCode>(status)) {
        case StatusCode::kCancelled:
            return ErrorCode::kStopped;
        case StatusCode::kInvalidArgument:
        case StatusCode::kOutOfRange:
            return ErrorCode::kInvalidArgument;
        case StatusCode::kNotFound:
            return ErrorCode::kNotFound;
        case StatusCode::kAlreadyExists:
            return ErrorCode::kAlreadyExists;
        case StatusCode::kPermissionDenied:
            return ErrorCode::kExecution;
        case StatusCode::kResourceExhausted:
            return ErrorCode::kResourceExhausted;
        case StatusCode::kFailedPrecondition:
        case StatusCode::kAborted:
            return ErrorCode::kInvalidState;
        case StatusCode::kUnimplemented:
            return ErrorCode::kUnsupported;
        case StatusCode::kUnavailable:
            return ErrorCode::kPortal;
        default:
            return ErrorCode::kRpc;
    }
}

std::optional<ErrorCode> error_code_from_number(uint64_t number) {
    if (number < static_cast<uint64_t>(ErrorCode::kInternal) ||
        number > static_cast<uint64_t>(ErrorCode::kSessionReaped))
        return std::nullopt;
    return static_cast<ErrorCode>(number);
}

}  // namespace boxlite::rpc
