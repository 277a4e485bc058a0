// What is written to a stream inside a box goes in pieces: one call's memory is bounded on both sides.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "rpc/box.pb.h"

namespace boxlite::runtime {

// `send` takes each WriteRequest in turn; the last one closes the stream when `close` is set.
template <typename Send>
Result<void> write_in_pieces(const std::string& id, std::string_view data, bool close, const Send& send) {
    constexpr size_t kPiece = size_t{256} << 10;
    v1::WriteRequest request;
    request.set_id(id);
    while (!data.empty() || close) {
        const std::string_view piece = data.substr(0, kPiece);
        data.remove_prefix(piece.size());
        request.set_data(std::string(piece));
        request.set_close(close && data.empty());
        TRY(send(request));
        if (data.empty()) break;
    }
    return {};
}

}  // namespace boxlite::runtime
