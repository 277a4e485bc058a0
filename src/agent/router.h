// From the names in a request to the function that serves it, with the request parsed.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/channel.h"

namespace boxlite::agent {

class Router {
  public:
    // `service` and `method` are literals. `handler` is called as handler(Request, rpc::Responder).
    template <typename Request, typename Handler>
    void add(std::string_view service, std::string_view method, Handler handler) {
        routes_.push_back(
            {service, method,
             [handler = std::move(handler), method](std::string_view payload, rpc::Responder responder) {
                 auto request = rpc::parse<Request>(payload, method);
                 if (request)
                     handler(std::move(request).value(), std::move(responder));
                 else
                     responder.fail({ErrorCode::kInvalidArgument, request.error().message});
             }});
    }

    // As a channel's request handler. kUnsupported for an unknown method.
    void dispatch(const rpc::RequestView& request, rpc::Responder responder) const {
        for (const Route& route : routes_)
            if (route.method == request.method && route.service == request.service)
                return route.serve(request.payload, std::move(responder));
        responder.fail(base::make_error(ErrorCode::kUnsupported, "the agent does not know {}.{}",
                                        request.service, request.method));
    }

  private:
    struct Route {
        std::string_view service;
        std::string_view method;
        std::function<void(std::string_view, rpc::Responder)> serve;
    };
    std::vector<Route> routes_;
};

// Answers with the value's message, an empty one, or the error.
template <typename Message>
void answer(rpc::Responder& responder, const Result<Message>& result) {
    if (result)
        responder.reply(*result);
    else
        responder.fail(result.error());
}
inline void answer(rpc::Responder& responder, const Result<void>& result) {
    if (result)
        responder.reply(std::string_view());
    else
        responder.fail(result.error());
}

}  // namespace boxlite::agent
