#include "shim/template.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/sparse_file.h"
#include "engine/engine.h"
#include "jail/confine.h"
#include "net/layout.h"
#include "net/mac.h"
#include "rpc/channel.h"
#include "shim/guest_constants.h"
#include "virtio/balloon.h"
#include "virtio/block.h"
#include "virtio/net.h"
#include "virtio/rng.h"
#include "virtio/vsock.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBudget{60'000};
// Each is some 50 MB. One for each size of box that is in use, and for each release of BoxLite.
constexpr size_t kMaxTemplates = 8;

// The disk of a machine without a box: larger than any, so that nothing of a box's own disk is out of its
// driver's sight before that has heard how large it is.
class NoDisk final : public disk::BlockBackend {
  public:
    Result<void> readv(uint64_t, std::span<const iovec> into) override {
        for (const iovec& part : into) std::fill_n(static_cast<uint8_t*>(part.iov_base), part.iov_len, 0);
        return {};
    }
    Result<void> writev(uint64_t, std::span<const iovec>) override { return refuse(); }
    Result<void> discard(uint64_t, uint64_t) override { return refuse(); }
    Result<void> write_zeroes(uint64_t, uint64_t) override { return refuse(); }
    Result<void> flush() override { return {}; }
    uint64_t size() const override { return uint64_t{1} << 50; }
    bool read_only() const override { return false; }

  private:
    static Error refuse() {
        return base::make_error(ErrorCode::kInvalidState, "a machine without a box writes to its disk");
    }
};

class Maker {
  public:
    Maker(base::EventLoop& loop, const v1::TemplateSpec& spec, std::string folder)
        : loop_(loop),
          spec_(spec),
          folder_(std::move(folder)),
          disk_(std::make_unique<NoDisk>(), kDiskSerial) {}

    Result<void> run() {
        TRY(start());
        const auto timer = loop_.after(kBudget, [this] {
            end(base::make_error(ErrorCode::kEngine, "its machine is not up after {} s",
                                 kBudget.count() / 1000));
        });
        TRY(loop_.run());
        loop_.cancel(timer);
        return outcome_;
    }

  private:
    Result<void> start() {
        vsock_.listen(kAgentPort, [this](base::Fd stream) {
            loop_.post([this, stream = std::make_shared<base::Fd>(std::move(stream))] {
                connected(std::move(*stream));
            });
        });
        engine::MachineConfig config;
        config.box_id = spec_.key();
        config.kernel_path = spec_.kernel_path();
        config.initramfs_path = spec_.initramfs_path();
        config.cpus = spec_.cpus();
        config.memory_mib = spec_.memory_mib();
        config.devices = {&vsock_, &disk_, &rng_, &balloon_};
        if (spec_.network()) {
            frames_ = TRY(base::make_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK));
            // A box that goes on from it gives the interface its own address.
            net_.emplace(std::move(frames_.first), net::box_mac(spec_.key()), net::kMtu, [] {});
            config.devices.push_back(&*net_);
        }
        config.confine = [this](const engine::MachineProcesses&) -> Result<void> {
            jail::ShimConfinement confinement;
            confinement.read_write = {spec_.folder()};
            if (!spec_.log_dir().empty()) confinement.read_write.push_back(spec_.log_dir());
            TRY(jail::confine_shim(confinement));
            return {};
        };
        config.console = [](base::ByteView) {};
        machine_ = TRY(engine::start_kvm(config, loop_, [this](engine::MachineExit) {
            end(base::make_error(ErrorCode::kEngine, "its machine ended while it booted"));
        }));
        return {};
    }

    // An agent that answers, whatever it says, has nothing left to do but to wait.
    void connected(base::Fd stream) {
        auto channel = rpc::Channel::make(loop_, std::move(stream), nullptr, [](const Error&) {});
        if (!channel.ok()) return end(channel.error());
        agent_ = std::move(channel).value();
        agent_->call("boxlite.v1.Guest", "Stats", v1::Empty(), kBudget,
                     [this](const Result<std::string_view>&) { end(keep()); });
    }

    Result<void> keep() {
        TRY(machine_->pause());
        const engine::MachineSnapshot snapshot = TRY(machine_->capture([] { return Result<void>(); }));
        TRY(base::write_file_atomically(folder_ + "/state", base::as_bytes(snapshot.state), 0400));
        const base::Fd file =
            TRY(base::open_file(folder_ + "/memory", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0400));
        const uint64_t bytes = uint64_t{spec_.memory_mib()} << 20;
        if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0)
            return base::errno_error(ErrorCode::kStorage, "make a file of {} bytes", bytes);
        // The first capture of a machine has all of its memory in one layer.
        TRY(base::for_each_data(
            snapshot.memory.front().file.get(), 0, bytes,
            [&](uint64_t at, base::ByteView data) { return base::pwrite_all(file.get(), data, at); }));
        if (::fsync(file.get()) < 0) return base::errno_error(ErrorCode::kStorage, "sync a template");
        return {};
    }

    void end(Result<void> outcome) {
        outcome_ = std::move(outcome);
        loop_.stop();
    }

    base::EventLoop& loop_;
    const v1::TemplateSpec& spec_;
    const std::string folder_;
    Result<void> outcome_;
    virtio::Vsock vsock_;
    virtio::Block disk_;
    virtio::Rng rng_;
    virtio::Balloon balloon_;
    base::FdPair frames_;
    std::optional<virtio::Net> net_;
    std::unique_ptr<engine::Machine> machine_;
    std::shared_ptr<rpc::Channel> agent_;
};

// Those made or used last stay.
void remove_old(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<std::pair<fs::file_time_type, std::string>> found;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (const std::string name = entry.path().filename();
            entry.is_directory(error) && name.front() != '.')
            found.emplace_back(entry.last_write_time(error), entry.path());
    std::sort(found.rbegin(), found.rend());
    for (size_t i = kMaxTemplates; i < found.size(); ++i) (void)base::remove_tree(found[i].second);
}

}  // namespace

Result<void> make_template(const v1::TemplateSpec& spec) {
    const std::string path = spec.folder() + "/" + spec.key(), fresh = spec.folder() + "/." + spec.key();
    TRY(base::make_directories(spec.folder(), 0700));
    const auto lock = base::FileLock::try_acquire(spec.folder() + "/.lock");
    if (!lock.ok()) return lock.error().code == ErrorCode::kInvalidState ? Result<void>() : lock.error();
    if (base::path_exists(path)) return {};
    TRY(base::remove_tree(fresh));
    TRY(base::make_directories(fresh, 0700));
    auto made = [&]() -> Result<void> {
        const auto loop = TRY(base::EventLoop::make());
        return Maker(*loop, spec, fresh).run();
    }();
    if (!made.ok())
        TRY(base::write_file_atomically(fresh + "/failure", base::as_bytes(made.error().message), 0400));
    if (::rename(fresh.c_str(), path.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "put a template in its place");
    TRY(base::sync_directory(spec.folder()));
    remove_old(spec.folder());
    return made;
}

}  // namespace boxlite::shim
