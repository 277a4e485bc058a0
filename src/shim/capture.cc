// Keeping a running box as it is at one instant.
#include <unistd.h>

#include "base/log.h"
#include "disk/qcow2.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

// Of writing out what the guest's kernel has in memory.
constexpr milliseconds kFreezeBudget{60'000};
constexpr milliseconds kThawBudget{5'000};

bool is_plain_name(const std::string& name) {
    return !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
}

v1::MachineImage to_message(const engine::MachineSnapshot& snapshot) {
    v1::MachineImage image;
    image.set_state(snapshot.state);
    for (const engine::MemoryLayer& layer : snapshot.memory) {
        auto* kept = image.add_layers();
        kept->set_id(layer.id);
        for (const engine::MemoryRun& run : layer.runs) {
            auto* part = kept->add_runs();
            part->set_offset(run.offset);
            part->set_size(run.size);
        }
    }
    return image;
}

// One byte and the descriptors: that fits into any socket, so a client that stalls holds nobody up.
Result<void> hand_over(const std::string& socket, const engine::MachineSnapshot& snapshot) {
    const std::string message = to_message(snapshot).SerializeAsString();
    const base::Fd image = TRY(base::make_memfd("boxlite-machine-image", message.size()));
    TRY(base::write_all(image.get(), base::as_bytes(message)));
    std::vector<int> files{image.get()};
    for (const engine::MemoryLayer& layer : snapshot.memory) files.push_back(layer.file.get());
    const base::Fd peer = TRY(base::connect_unix(socket));
    return base::send_with_fds(peer.get(), base::as_bytes("m"), files);
}

}  // namespace

void Supervisor::capture(const v1::CaptureRequest& request, rpc::Responder responder) {
    if (state_ != State::kRunning && state_ != State::kPaused)
        return responder.fail(base::make_error(
            ErrorCode::kInvalidState, "box '{}' is not running and cannot be captured", spec_.name()));
    if (!is_plain_name(request.layer()) || (request.memory() && !is_plain_name(request.socket())))
        return responder.fail(
            base::make_error(ErrorCode::kInvalidArgument, "a capture's layer and socket are plain names"));
    // A machine that is kept with its memory has there what its disk lacks, and a paused one cannot write it.
    if (request.memory() || state_ == State::kPaused) return answer_capture(request, std::move(responder));
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    agent_->call(
        "boxlite.v1.Guest", "Freeze", v1::Empty(), kFreezeBudget,
        [this, request, held](const Result<std::string_view>& frozen) {
            if (!frozen.ok()) return held->fail(frozen.error());
            answer_capture(request, std::move(*held));
            agent_->call(
                "boxlite.v1.Guest", "Thaw", v1::Empty(), kThawBudget,
                [](const Result<std::string_view>& thawed) {
                    if (!thawed.ok())
                        base::log_error("the guest's disk stays frozen", {{"error", thawed.error().message}});
                });
        });
}

void Supervisor::answer_capture(const v1::CaptureRequest& request, rpc::Responder responder) {
    const auto captured = capture_now(request);
    if (!captured.ok()) return responder.fail(captured.error());
    base::log_info("box captured", {{"box", spec_.box_id()},
                                    {"layer", request.layer()},
                                    {"pause_us", std::to_string(captured->pause_ns() / 1000)}});
    responder.reply(*captured);
}

Result<v1::CaptureResponse> Supervisor::capture_now(const v1::CaptureRequest& request) {
    const auto began = base::Clock::now();
    const bool pausing = state_ == State::kRunning;
    if (pausing) TRY(machine_->pause());
    engine::MachineSnapshot snapshot;
    auto kept = [&]() -> Result<void> {
        const auto swap = [&] { return swap_disk(request.layer()); };
        if (!request.memory()) return machine_->with_devices_still(swap);
        snapshot = TRY(machine_->capture(swap));
        return {};
    }();
    if (pausing) TRY(machine_->resume());
    v1::CaptureResponse response;
    response.set_pause_ns(pausing ? static_cast<uint64_t>((base::Clock::now() - began).count()) : 0);
    TRY(std::move(kept));
    if (request.memory()) TRY(hand_over(spec_.box_dir() + "/" + request.socket(), snapshot));
    return response;
}

// The file of before has another link, by which the new one finds it.
Result<void> Supervisor::swap_disk(const std::string& layer) {
    auto& before = static_cast<disk::Qcow2&>(disk_->disk());
    const std::string path = spec_.box_dir() + "/disk.qcow2", fresh = spec_.box_dir() + "/disk.new";
    ::unlink(fresh.c_str());  // of an attempt that failed
    TRY(disk::Qcow2::create(
        fresh, {.virtual_size = before.size(),
                .backing = disk::Backing{"../../bases/layers/" + layer, disk::ImageFormat::kQcow2}}));
    // A disk is open once: the old one has to go before the new one can stand on it.
    TRY(before.close());
    auto swapped = [&]() -> Result<void> {
        TRY(open_disk(fresh));
        if (::rename(fresh.c_str(), path.c_str()) < 0)
            return base::errno_error(ErrorCode::kStorage, "put the box's new disk in its place");
        return base::sync_directory(spec_.box_dir());
    }();
    if (swapped.ok()) return {};
    (void)static_cast<disk::Qcow2&>(disk_->disk()).close();
    // Without a disk the guest gets errors, and nothing that it was told is written gets lost.
    if (const auto back = open_disk(path); !back.ok())
        base::log_error("the box has lost its disk", {{"error", back.error().message}});
    return swapped;
}

}  // namespace boxlite::shim
