#include "runtime/capture.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "disk/qcow2.h"
#include "runtime/layers.h"

namespace boxlite::runtime {

namespace {

// The guest writes out what it has in memory first, where its memory is not kept.
constexpr std::chrono::milliseconds kCaptureBudget{90'000};
constexpr off_t kMaxImageBytes = 64 << 20;

Result<void> read_image(int file, v1::MachineImage& image) {
    struct stat status;
    if (::fstat(file, &status) < 0) return base::errno_error(ErrorCode::kPortal, "look at its description");
    if (status.st_size > kMaxImageBytes)
        return base::make_error(ErrorCode::kPortal, "its description of {} bytes is longer than {}",
                                status.st_size, kMaxImageBytes);
    base::Bytes bytes(static_cast<size_t>(status.st_size));
    TRY(base::pread_exact(file, bytes, 0));
    if (!image.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return base::make_error(ErrorCode::kPortal, "its description is damaged");
    return {};
}

// From the supervisor, on the socket that it was told of.
Result<CapturedMachine> receive_machine(const base::Fd& listener) {
    pollfd entry{listener.get(), POLLIN, 0};
    int ready;
    do ready = ::poll(&entry, 1, static_cast<int>(kCaptureBudget.count()));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return base::make_error(ErrorCode::kPortal, "the supervisor did not hand its machine over");
    const base::Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid()) return base::errno_error(ErrorCode::kPortal, "take the supervisor's machine");
    TRY(base::set_nonblocking(peer.get(), false));
    std::vector<base::Fd> files;
    uint8_t byte = 0;
    if (TRY(base::recv_with_fds(peer.get(), {&byte, 1}, files)) != 1 || files.empty())
        return base::make_error(ErrorCode::kPortal, "the supervisor did not hand its machine over");
    CapturedMachine machine;
    TRY_CONTEXT(read_image(files.front().get(), machine.image), "the machine that the supervisor hands over");
    machine.memory.assign(std::make_move_iterator(files.begin() + 1), std::make_move_iterator(files.end()));
    return machine;
}

}  // namespace

Result<Capture> capture_box(const BoxImpl& box, Connection& connection, bool with_memory) {
    Capture capture;
    TRY(check_depth(box.runtime->home, box.folder.disk()));
    capture.layer = new_layer_name();
    const Home& home = box.runtime->home;
    v1::CaptureRequest request;
    request.set_layer(capture.layer);
    request.set_memory(with_memory);
    const std::string name = "capture.sock", socket = box.folder.path + "/" + name;
    ::unlink(socket.c_str());
    base::Fd listener;
    if (with_memory) {
        request.set_socket(name);
        listener = TRY(base::listen_unix(socket));
    }
    if (::link(box.folder.disk().c_str(), layer_path(home, capture.layer).c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "keep the disk of box '{}'", box.config.name);

    // The supervisor sends while it works on the request.
    Result<CapturedMachine> machine = CapturedMachine{};
    std::thread receiver;
    if (with_memory) receiver = std::thread([&] { machine = receive_machine(listener); });
    const auto answer =
        connection.client.call<v1::CaptureResponse>(kBoxService, "Capture", request, kCaptureBudget);
    // One that refused sends nothing.
    if (!answer.ok() && with_memory) ::shutdown(listener.get(), SHUT_RDWR);
    if (receiver.joinable()) receiver.join();
    ::unlink(socket.c_str());
    if (!answer.ok()) {
        // If the box stands on it all the same, its own link is gone and this one stays.
        const auto disk = disk::qcow2_info(box.folder.disk());
        if (disk.ok() && (!disk->backing || !disk->backing->path.ends_with("/" + capture.layer)))
            ::unlink(layer_path(home, capture.layer).c_str());
        return answer.error();
    }
    capture.pause = std::chrono::nanoseconds(answer->pause_ns());
    capture.machine = TRY(std::move(machine));
    return capture;
}

}  // namespace boxlite::runtime
