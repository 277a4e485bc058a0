// Messages that no honest driver sends: each ends the connection, and nothing else.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>

#include "virtio/vhost_user/testing.h"

namespace boxlite::virtio::vhost_user {
namespace {

using testing::Driver;
using virtio::testing::kRamBase;
using virtio::testing::kRamSize;

constexpr uint64_t kPage = 4096;

struct Attempt {
    testing::EchoDevice device;
    testing::Ram ram;
    testing::DriverQueue queue{ram, 8};
    Driver driver{device};

    void start() {
        driver.send(kSetFeatures, kFeatureVersion1);
        driver.share(ram);
        driver.set_up(0, queue.addresses());
        driver.enable(0);
        EXPECT_FALSE(driver.closed);
    }
    void set_regions(const std::vector<MemoryRegion>& regions, uint32_t count, const std::vector<int>& fds) {
        base::Bytes payload(kMemoryTableHeader);
        base::store_le(payload.data(), count);
        const auto* table = reinterpret_cast<const uint8_t*>(regions.data());
        payload.insert(payload.end(), table, table + regions.size() * sizeof(MemoryRegion));
        driver.send(kSetMemTable, payload, fds, static_cast<uint32_t>(payload.size()));
    }
    void set_regions(const std::vector<MemoryRegion>& regions) {
        set_regions(regions, static_cast<uint32_t>(regions.size()),
                    std::vector<int>(regions.size(), ram.fd()));
    }
};

// Why the connection was ended; "" when it was not.
std::string closed_by(const std::function<void(Attempt&)>& act) {
    Attempt attempt;
    act(attempt);
    const auto reason = attempt.driver.closed;
    if (!reason) return "";
    EXPECT_NE(*reason, "") << "it was told why";
    EXPECT_EQ(attempt.device.resets, 1u);
    return *reason;
}

TEST(BackendMalformed, PayloadsOfTheWrongSize) {
    const base::Bytes zeroes(sizeof(Payload) + 1);
    const std::pair<uint32_t, uint32_t> sizes[] = {
        {kSetFeatures, 8},   {kSetProtocolFeatures, 8}, {kSetVringNum, 8},    {kSetVringBase, 8},
        {kSetVringAddr, 40}, {kGetVringBase, 8},        {kSetVringEnable, 8}, {kSetVringKick, 8},
        {kSetVringCall, 8},  {kSetVringErr, 8}};
    for (const auto& [request, right] : sizes)
        for (const uint32_t size : {0u, right - 1, right + 1})
            EXPECT_NE(closed_by([&, request = request](Attempt& a) {
                          const base::Fd fd = base::make_eventfd().value();
                          a.driver.send(request, zeroes, {fd.get()}, size);
                      }).find("size"),
                      std::string::npos)
                << request << ", " << size;
    EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send(kGetConfig, zeroes, {}, 11); }), "");
    for (const uint32_t request : {kGetFeatures, kSetOwner, kSetMemTable})
        EXPECT_NE(closed_by([&](Attempt& a) {
                      a.driver.send(request, zeroes, {}, static_cast<uint32_t>(zeroes.size()));
                  }).find("large"),
                  std::string::npos);
}

TEST(BackendMalformed, Headers) {
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(7); }).find("unknown request"), std::string::npos);
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(UINT32_MAX); }).find("unknown request"),
              std::string::npos);
    EXPECT_NE(closed_by([](Attempt& a) {
                  const Header header{kGetFeatures, 2, 0};
                  a.driver.send_bytes({reinterpret_cast<const uint8_t*>(&header), sizeof header});
              }).find("version"),
              std::string::npos);
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kSetConfig, Config{}); }).find("read-only"),
              std::string::npos);
}

// The device's thread must not wait for a driver that says half of it, or never listens.
TEST(BackendMalformed, HalfAMessage) {
    const Header header{kSetFeatures, kVersion, 8};
    const base::ByteView bytes(reinterpret_cast<const uint8_t*>(&header), sizeof header);
    EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send_bytes(bytes.first(5)); }), "");
    EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send_bytes(bytes); }), "");
}

TEST(BackendMalformed, RepliesThatAreNotRead) {
    EXPECT_NE(closed_by([](Attempt& a) {
                  for (int i = 0; i < 100000 && !a.driver.closed; ++i) a.driver.send(kGetFeatures);
              }),
              "");
}

TEST(BackendMalformed, FeaturesOfALegacyDriver) {
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kSetFeatures, uint64_t{0}); }).find("legacy"),
              std::string::npos);
}

TEST(BackendMalformed, ConfigurationRanges) {
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kGetConfig, Config{1, 4, 0, {}}); }), "");
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kGetConfig, Config{0, 257, 0, {}}); }), "");
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kGetConfig, Config{0, UINT32_MAX, 0, {}}); }), "");
}

TEST(BackendMalformed, MemoryRegions) {
    const auto regions = [](std::vector<MemoryRegion> table) {
        return closed_by([&](Attempt& a) { a.set_regions(table); });
    };
    EXPECT_EQ(regions({{0, kPage, 0, 0}, {kPage, kPage, 0, kPage}}), "");
    EXPECT_NE(regions({{0, 2 * kPage, 0, 0}, {kPage, kPage, 0, 0}}).find("overlap"), std::string::npos);
    EXPECT_NE(regions({{UINT64_MAX - 100, kPage, 0, 0}}).find("wrap"), std::string::npos);
    EXPECT_NE(regions({{0, kRamSize + 1, 0, 0}}).find("beyond"), std::string::npos);
    EXPECT_NE(regions({{0, kPage, 0, kRamSize}}).find("beyond"), std::string::npos);
    EXPECT_NE(regions({{0, kPage, 0, UINT64_MAX - 100}}).find("beyond"), std::string::npos);
    EXPECT_NE(regions({{0, 0, 0, 0}}), "");
    EXPECT_NE(regions({{0, kPage, 0, 17}}), "");
    EXPECT_NE(regions({}), "");
    EXPECT_NE(regions(std::vector<MemoryRegion>(9, {0, kPage, 0, 0})), "");
}

TEST(BackendMalformed, DescriptorsOfTheMemoryTable) {
    const std::vector<MemoryRegion> one = {{0, kPage, 0, 0}};
    EXPECT_NE(closed_by([&](Attempt& a) { a.set_regions(one, 1, {}); }), "");
    EXPECT_NE(closed_by([&](Attempt& a) { a.set_regions(one, 1, {a.ram.fd(), a.ram.fd()}); }), "");
    EXPECT_NE(closed_by([&](Attempt& a) { a.set_regions(one, 2, {a.ram.fd(), a.ram.fd()}); }), "");
    EXPECT_NE(closed_by([&](Attempt& a) { a.set_regions(one, UINT32_MAX, {a.ram.fd()}); }), "");
    const base::Fd pipe = base::make_pipe().value().first;
    EXPECT_NE(closed_by([&](Attempt& a) { a.set_regions(one, 1, {pipe.get()}); }).find("sealed"),
              std::string::npos);
}

TEST(BackendMalformed, MemoryThatShrinksIsImpossible) {
    Attempt a;
    a.start();
    EXPECT_LT(::ftruncate(a.ram.fd(), kPage), 0);
}

TEST(BackendMalformed, DescriptorsOfARing) {
    const base::Fd fd = base::make_eventfd().value();
    for (const uint32_t request : {kSetVringKick, kSetVringCall, kSetVringErr}) {
        EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send(request, uint64_t{0}); }), "");
        EXPECT_NE(closed_by([&](Attempt& a) {
                      a.driver.send(request, uint64_t{0}, {fd.get(), fd.get()});
                  }),
                  "");
        EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send(request, uint64_t{2}, {fd.get()}); }), "");
        EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send(request, uint64_t{1 << 8}, {fd.get()}); }), "");
    }
    // What cannot be waited for.
    const base::Fd file = base::open_file("/proc/self/status", O_RDONLY).value();
    EXPECT_NE(closed_by([](Attempt& a) { a.driver.send(kSetVringKick, uint64_t{0}, {a.ram.fd()}); }), "");
    EXPECT_EQ(closed_by([&](Attempt& a) { a.driver.send(kSetVringCall, uint64_t{0}, {file.get()}); }), "");
}

TEST(BackendMalformed, RingsThatAreNotThere) {
    for (const uint32_t request : {kSetVringNum, kSetVringBase, kGetVringBase, kSetVringEnable})
        EXPECT_NE(closed_by([&](Attempt& a) { a.driver.send(request, VringState{2, 8}); }), "");
    EXPECT_NE(closed_by([](Attempt& a) {
                  a.driver.send(kSetVringAddr, VringAddress{2, 0, 0, 0, 0, 0});
              }),
              "");
    const auto with = [](const std::function<void(QueueAddresses&)>& change) {
        return closed_by([&](Attempt& a) {
            QueueAddresses addresses = a.queue.addresses();
            change(addresses);
            a.driver.send(kSetFeatures, kFeatureVersion1);
            a.driver.share(a.ram);
            a.driver.set_up(0, addresses);
            a.driver.enable(0);
        });
    };
    EXPECT_EQ(with([](QueueAddresses&) {}), "");
    EXPECT_NE(with([](QueueAddresses& at) { at.size = 1025; }), "");
    EXPECT_NE(with([](QueueAddresses& at) { at.size = 7; }), "");
    EXPECT_NE(with([](QueueAddresses& at) { at.descriptors = kRamBase + kRamSize - 16; }), "");
    EXPECT_NE(with([](QueueAddresses& at) { at.available = UINT64_MAX - 1; }), "");
    EXPECT_NE(with([](QueueAddresses& at) { at.used += 2; }), "");
}

TEST(BackendMalformed, ChangesUnderARunningQueue) {
    EXPECT_NE(closed_by([](Attempt& a) {
                  a.start();
                  a.driver.share(a.ram);
              }).find("running"),
              std::string::npos);
    EXPECT_NE(closed_by([](Attempt& a) {
                  a.start();
                  a.driver.set_up(0, a.queue.addresses());
              }).find("running"),
              std::string::npos);
}

}  // namespace
}  // namespace boxlite::virtio::vhost_user
