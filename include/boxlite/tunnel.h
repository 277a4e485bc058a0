// A TCP connection to a port that a program inside a box listens on. It needs no published port and no
// network of the box.
//
//   auto tunnel = box.tunnel(80).value();
//   tunnel.write("GET / HTTP/1.0\r\n\r\n"); tunnel.close_write();
//   while (!(chunk = tunnel.read().value()).empty()) use(chunk);
//
// Thread safety: every call may be made from any thread at any time. One thread for each direction is the
// intended use: a blocked read() or write() does not hold back the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "boxlite/result.h"

namespace boxlite {

class TunnelImpl;

// A handle; copies refer to the same connection, which is closed with the last of them.
class Tunnel {
  public:
    static constexpr size_t kMaxChunk = size_t{1} << 20;

    explicit Tunnel(std::shared_ptr<TunnelImpl> impl) : impl_(std::move(impl)) {}

    // Blocks until bytes are there and returns at most `max_bytes` (at most kMaxChunk); empty: the program in
    // the box sends no more. kPortal: the box has ended.
    Result<std::string> read(size_t max_bytes = size_t{64} << 10);

    // Blocks until every byte is on its way. kInvalidState when the program has closed the connection.
    Result<void> write(std::string_view data);
    // The program reads an end of file; its answers can still be read.
    Result<void> close_write();

    // Every read and write on this handle and its copies, under way or to come, fails; the program sees the
    // connection end.
    void disconnect();

  private:
    std::shared_ptr<TunnelImpl> impl_;
};

}  // namespace boxlite
