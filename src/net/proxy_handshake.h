// One CONNECT request to a proxy (RFC 9110, 9.3.6), after whose answer the connection is one to the
// destination. Thread safety: the loop's thread.
#pragma once

#include <cstdint>
#include <string>

namespace boxlite::net {

class ProxyHandshake {
  public:
    enum class Outcome {
        kWaiting,  // for the socket, to be advanced when more has come
        kOpen,
        kFailed,  // see problem()
    };

    // `target`: "example.com:443", "[2001:db8::1]:443".
    ProxyHandshake(const std::string& target, const std::string& authorization);

    // `socket` is connected and non-blocking. Nothing behind the proxy's answer is taken from it. What has
    // come and is no whole answer stays there, so wait for more of it edge-triggered.
    Outcome advance(int socket);

    const std::string& problem() const { return problem_; }
    // Of the handshake itself, so that they can be left out of what is counted.
    uint64_t sent_bytes() const { return sent_; }
    uint64_t received_bytes() const { return received_; }

  private:
    Outcome fail(std::string problem);
    Outcome read_answer(int socket);

    std::string request_;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
    std::string problem_;
};

}  // namespace boxlite::net
