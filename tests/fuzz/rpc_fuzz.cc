// Any bytes as a ttrpc stream, cut anywhere, from a peer on either side: frames, envelopes, messages. What
// the agent's small decoder accepts, it writes so that it reads it back the same.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "rpc/box.lite.h"
#include "rpc/envelope.h"
#include "rpc/frame.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace boxlite;

template <typename M>
std::string bytes_of(const M& message) {
    std::string bytes(message.ByteSizeLong(), '\0');
    message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(bytes.data()));
    return bytes;
}

template <typename M>
void try_message(std::string_view payload) {
    const auto message = rpc::parse<M>(payload, "message");
    if (!message) return;
    const std::string bytes = bytes_of(*message);
    const auto again = rpc::parse<M>(bytes, "message");
    if (!again || bytes_of(*again) != bytes) std::abort();
}

void try_frame(const rpc::Frame& frame) {
    if (frame.header.type == rpc::FrameType::kResponse) {
        (void)rpc::decode_response(frame.data).ok();
        return;
    }
    const auto request = rpc::decode_request(frame.data);
    if (!request) return;
    try_message<lite::SetupRequest>(request->payload);
    try_message<lite::StartRequest>(request->payload);
    try_message<lite::ListResponse>(request->payload);
    try_message<lite::CloseFileRequest>(request->payload);
}

}  // namespace

// The first byte says how large the pieces are that arrive.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const size_t piece = data[0] + size_t{1};
    rpc::FrameReader reader;
    for (size_t at = 1; at < size;) {
        const auto space = reader.space();
        const size_t n = std::min({space.size(), piece, size - at});
        if (n == 0) std::abort();
        std::copy_n(data + at, n, space.data());
        reader.commit(n);
        at += n;
        for (;;) {
            const auto frame = reader.next();
            if (!frame) return 0;
            if (!*frame) break;
            try_frame(**frame);
        }
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    lite::StartRequest start;
    start.set_id("main");
    for (const char* argument : {"sh", "-c", ""}) start.mutable_process()->add_argv(argument);
    start.mutable_process()->add_env("A=b");
    lite::SetupRequest setup;
    setup.set_disk_serial("boxlite-root");
    setup.set_disk_bytes(uint64_t{1} << 40);
    setup.set_realtime_ns(-1);
    setup.mutable_container()->set_hostname("host");
    lite::ListResponse list;
    list.add_entries()->set_name("a file");
    lite::CloseFileRequest close;
    close.set_handle(7);
    close.mutable_attributes()->set_mode(0644);

    std::string stream;
    const auto add = [&](const rpc::EncodedFrame& frame) {
        stream.append(reinterpret_cast<const char*>(frame.bytes.get()), frame.size);
    };
    for (const std::string& payload : {bytes_of(start), bytes_of(setup), bytes_of(list), bytes_of(close)})
        add(rpc::encode_request(1, "boxlite.v1.Agent", "Call", payload, std::chrono::seconds(5)).value());
    add(rpc::encode_response(3, bytes_of(start)).value());
    add(rpc::encode_error(5, Error{ErrorCode::kNotFound, "no such thing"}));
    return {'\xff' + stream, '\0' + stream, '\7' + stream};
}
