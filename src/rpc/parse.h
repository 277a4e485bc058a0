// Requests as messages.
#pragma once

#include "base/result.h"
#include "rpc/channel.h"

namespace boxlite::rpc {

// False: the request is damaged, and has been answered with that.
template <typename Message>
bool parse(const RequestView& request, Message& message, Responder& responder) {
    if (message.ParseFromArray(request.payload.data(), static_cast<int>(request.payload.size()))) return true;
    responder.fail(
        base::make_error(ErrorCode::kInvalidArgument, "the request of {} is damaged", request.method));
    return false;
}

}  // namespace boxlite::rpc
