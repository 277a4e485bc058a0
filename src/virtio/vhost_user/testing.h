// For tests and fuzzers: the driver's end of a vhost-user connection.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "virtio/testing.h"
#include "virtio/vhost_user/backend.h"

namespace boxlite::virtio::vhost_user::testing {

using virtio::testing::DriverQueue;
using virtio::testing::Ram;

// A device whose queues echo: each chain comes back with the bytes that could be read in it.
class EchoDevice final : public Device {
  public:
    explicit EchoDevice(base::Bytes config = {1, 2, 3, 4}) : config_(std::move(config)) {}
    DeviceType type() const override { return DeviceType::kRng; }
    std::string name() const override { return "echo"; }
    uint64_t features() const override { return 1 << 5; }
    size_t queue_count() const override { return 2; }
    base::Bytes config() const override { return {config_.begin(), config_.end()}; }
    void process(size_t index) override {
        ++processed;
        Queue& queue = host_->queue(index);
        while (auto chain = queue.pop())
            queue.push(chain->head, static_cast<uint32_t>(chain->readable_bytes()));
        host_->notify(index);
    }
    void reset() override { ++resets; }

    size_t processed = 0;
    size_t resets = 0;

  private:
    base::Bytes config_;
};

class Driver {
  public:
    explicit Driver(Device& device) {
        base::FdPair pair = base::make_socketpair(SOCK_STREAM).value();
        socket = std::move(pair.first);
        (void)base::set_nonblocking(socket.get(), true);
        backend.emplace(device, *loop, std::move(pair.second),
                        [this](const std::string& why) { closed = why; });
        (void)backend->start();
    }

    void turn() { virtio::testing::turn(*loop); }
    void send_bytes(base::ByteView bytes, const std::vector<int>& fds = {}) {
        (void)base::send_with_fds(socket.get(), bytes, fds);
        turn();
    }
    // Sends a message of `size` bytes of payload, those of `payload` first, and lets the backend handle it.
    void send(uint32_t request, base::ByteView payload, const std::vector<int>& fds, uint32_t size) {
        base::Bytes message(sizeof(Header) + size);
        const Header header{request, kVersion, size};
        std::memcpy(message.data(), &header, sizeof header);
        std::copy_n(payload.begin(), std::min<size_t>(payload.size(), size), message.begin() + sizeof header);
        send_bytes(message, fds);
    }
    template <typename T>
    void send(uint32_t request, const T& payload, const std::vector<int>& fds = {}) {
        send(request, {reinterpret_cast<const uint8_t*>(&payload), sizeof payload}, fds, sizeof payload);
    }
    void send(uint32_t request) { send(request, base::ByteView{}, {}, 0); }

    // The payload of the next reply.
    std::optional<base::Bytes> reply(uint32_t request) {
        Header header;
        if (::read(socket.get(), &header, sizeof header) != sizeof header) return std::nullopt;
        base::Bytes payload(header.size);
        if (header.request != request || header.flags != (kVersion | kFlagReply) ||
            ::read(socket.get(), payload.data(), payload.size()) != static_cast<ssize_t>(payload.size()))
            return std::nullopt;
        return payload;
    }
    std::optional<uint64_t> ask_u64(uint32_t request) {
        send(request);
        const auto payload = reply(request);
        if (!payload || payload->size() != sizeof(uint64_t)) return std::nullopt;
        return base::load_le<uint64_t>(payload->data());
    }

    // The steps of an honest driver.
    void share(const Ram& ram) {
        struct {
            uint32_t count = 1, padding = 0;
            MemoryRegion region;
        } table;
        table.region = {virtio::testing::kRamBase, virtio::testing::kRamSize, 0, 0};
        send(kSetMemTable, table, {ram.fd()});
    }
    void set_up(uint32_t index, const QueueAddresses& at) {
        send(kSetVringNum, VringState{index, at.size});
        send(kSetVringBase, VringState{index, at.next_available});
        send(kSetVringAddr, VringAddress{index, 0, at.descriptors, at.used, at.available, 0});
        kick[index] = base::make_eventfd().value();
        call[index] = base::make_eventfd().value();
        send(kSetVringCall, uint64_t{index}, {call[index].get()});
        send(kSetVringKick, uint64_t{index}, {kick[index].get()});
    }
    void enable(uint32_t index, uint32_t on = 1) { send(kSetVringEnable, VringState{index, on}); }
    void signal(uint32_t index) {
        const uint64_t one = 1;
        (void)!::write(kick[index].get(), &one, sizeof one);
        turn();
    }
    bool called(uint32_t index) {
        uint64_t count;
        return ::read(call[index].get(), &count, sizeof count) == sizeof count;
    }

    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    base::Fd socket;
    base::Fd kick[2], call[2];
    std::optional<std::string> closed;  // why, once the backend has closed the connection
    std::optional<Backend> backend;
};

}  // namespace boxlite::virtio::vhost_user::testing
