#include "boxlite/error.h"

#include <cerrno>
#include <cstring>

namespace boxlite {

std::string_view error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::kInternal:
            return "internal";
        case ErrorCode::kNotFound:
            return "not_found";
        case ErrorCode::kAlreadyExists:
            return "already_exists";
        case ErrorCode::kInvalidState:
            return "invalid_state";
        case ErrorCode::kInvalidArgument:
            return "invalid_argument";
        case ErrorCode::kConfig:
            return "config";
        case ErrorCode::kStorage:
            return "storage";
        case ErrorCode::kImage:
            return "image";
        case ErrorCode::kNetwork:
            return "network";
        case ErrorCode::kExecution:
            return "execution";
        case ErrorCode::kStopped:
            return "stopped";
        case ErrorCode::kEngine:
            return "engine";
        case ErrorCode::kUnsupported:
            return "unsupported";
        case ErrorCode::kDatabase:
            return "database";
        case ErrorCode::kPortal:
            return "portal";
        case ErrorCode::kRpc:
            return "rpc";
        case ErrorCode::kRpcTransport:
            return "rpc_transport";
        case ErrorCode::kMetadata:
            return "metadata";
        case ErrorCode::kUnsupportedEngine:
            return "unsupported_engine";
        case ErrorCode::kResourceExhausted:
            return "resource_exhausted";
        case ErrorCode::kSessionReaped:
            return "session_reaped";
    }
    return "internal";
}

Error Error::from_errno(ErrorCode code, std::string_view what, int errnum) {
    char buffer[128];
    std::string message = "cannot ";
    message.append(what).append(": ").append(strerror_r(errnum, buffer, sizeof buffer));
    if ((code == ErrorCode::kStorage || code == ErrorCode::kResourceExhausted) &&
        (errnum == ENOSPC || errnum == EDQUOT))
        message.append("; make room on that disk");
    return Error{code, std::move(message)};
}

Error Error::with_context(std::string_view prefix) && {
    message.insert(0, std::string(prefix) + ": ");
    return std::move(*this);
}

}  // namespace boxlite
