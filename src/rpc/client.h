// Blocking ttrpc calls over a connected stream: not thread safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "rpc/envelope.h"
#include "rpc/frame.h"

namespace boxlite::rpc {

class Client {
  public:
    // Takes a connected stream and makes it non-blocking.
    explicit Client(base::Fd stream);

    // The answer as serialized bytes. `timeout` 0 waits for ever; its passing is kRpc, and the connection
    // stays of use: the late answer is dropped (unless the time was up with the request half sent). kPortal
    // when the peer has gone, kRpcTransport when it does not speak ttrpc; both end the connection. Other
    // errors are the peer's own, with their code.
    Result<std::string> call_bytes(std::string_view service, std::string_view method, const Payload& payload,
                                   std::chrono::milliseconds timeout = {});

    //   auto status = TRY(client.call<v1::BoxStatus>("boxlite.v1.Box", "Inspect", v1::Empty()));
    template <typename Response>
    Result<Response> call(std::string_view service, std::string_view method, const Payload& request,
                          std::chrono::milliseconds timeout = {}) {
        const std::string payload = TRY(call_bytes(service, method, request, timeout));
        return parse<Response>(payload, method);
    }

    // Sends a request and leaves its answer for take(): several can be under way, in their order.
    Result<uint32_t> post(std::string_view service, std::string_view method, const Payload& payload);
    // Waits for the answer to what post() returned, once. Errors as those of call().
    Result<std::string> take_bytes(uint32_t posted, std::string_view method);
    template <typename Response>
    Result<Response> take(uint32_t posted, std::string_view method) {
        const std::string payload = TRY(take_bytes(posted, method));
        return parse<Response>(payload, method);
    }

    // From now on, what was sent is overwritten in memory: for secrets.
    void forget_what_is_sent() { forgets_ = true; }

    bool connected() const { return stream_.valid(); }
    int fd() const { return stream_.get(); }

  private:
    // Returns its number.
    Result<uint32_t> send_request(std::string_view service, std::string_view method, const Payload& payload,
                                  std::chrono::milliseconds timeout, base::Clock::time_point deadline);
    Result<void> send(const EncodedFrame& frame, base::Clock::time_point deadline);
    Result<std::string> await(uint32_t stream, std::string_view method, base::Clock::time_point deadline);
    Result<std::string> receive(uint32_t stream, base::Clock::time_point deadline);
    Result<void> wait(short events, base::Clock::time_point deadline);

    base::Fd stream_;
    FrameReader reader_;
    uint32_t next_stream_ = 1;
    std::map<uint32_t, std::optional<Result<std::string>>> posted_;  // with the answers that have come
    bool forgets_ = false;
};

}  // namespace boxlite::rpc
