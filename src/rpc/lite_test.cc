// The small messages against protobuf's: the same bytes out, the same values in.
#include <gtest/gtest.h>

#include <climits>

#include "rpc/box.lite.h"
#include "rpc/box.pb.h"
#include "rpc/envelope.h"

namespace boxlite {
namespace {

template <typename M>
std::string bytes_of(const M& message) {
    std::string bytes(message.ByteSizeLong(), '\0');
    auto* start = reinterpret_cast<uint8_t*>(bytes.data());
    EXPECT_EQ(message.SerializeWithCachedSizesToArray(start), start + bytes.size());
    return bytes;
}

// Through the other's hands and back.
template <typename Lite, typename Full>
void expect_same(const Full& message) {
    const std::string bytes = bytes_of(message);
    const auto lite = rpc::parse<Lite>(bytes, "lite");
    ASSERT_TRUE(lite.ok());
    EXPECT_EQ(bytes_of(*lite), bytes);
}

v1::SetupRequest setup_request() {
    v1::SetupRequest request;
    request.set_disk_serial("boxlite-root");
    request.set_disk_bytes(UINT64_MAX);
    request.set_realtime_ns(INT64_MIN);
    request.set_entropy(std::string("\0\xff\x80", 3));
    request.set_idle_init(true);
    v1::ContainerSpec* container = request.mutable_container();
    container->set_hostname("h\xc3\xb6st");
    container->add_dns_servers("1.1.1.1");
    container->add_dns_servers("");
    for (int i = 0; i < 3; ++i) {
        v1::HostEntry* entry = container->add_hosts();
        entry->set_name(std::string(static_cast<size_t>(i) * 100, 'n'));
        entry->set_address("::1");
    }
    container->set_shm_bytes(1);
    return request;
}

TEST(Lite, SameBytesAsProtobuf) {
    expect_same<lite::SetupRequest>(setup_request());
    expect_same<lite::Empty>(v1::Empty());

    v1::StartRequest start;
    start.set_id("main");
    for (const char* argument : {"sh", "", "-c"}) start.mutable_process()->add_argv(argument);
    start.mutable_process()->add_env(std::string("A=\0", 3));
    start.mutable_process()->mutable_tty();  // there, and empty
    start.mutable_process()->set_timeout_ms(UINT32_MAX);
    start.mutable_process()->add_cap_drop("ALL");
    expect_same<lite::StartRequest>(start);

    v1::ExitStatus status;
    status.set_code(-1);
    status.set_signal(INT_MIN);
    status.set_oom_killed(true);
    expect_same<lite::ExitStatus>(status);

    v1::ListResponse list;
    for (int i = 0; i < 40; ++i) {
        v1::FileInfo* info = list.add_entries();
        info->set_name(std::string(static_cast<size_t>(i), '\xfe'));
        info->set_type(static_cast<v1::FileType>(i % 7));
        info->set_mode(07777);
        info->set_mtime_ns(-i);
        info->set_size(uint64_t{1} << i);
        info->set_links(1);
        v1::Xattr* xattr = info->add_xattrs();
        xattr->set_name("security.capability");
        xattr->set_value(std::string(300, '\0'));
    }
    list.set_more(true);
    expect_same<lite::ListResponse>(list);

    v1::BoxSpec spec;
    spec.set_strict_jail(true);  // a field number that takes two bytes
    spec.mutable_main()->set_stdin_open(true);
    expect_same<lite::BoxSpec>(spec);
}

TEST(Lite, ProtobufReadsWhatWasSet) {
    lite::FileInfo info;
    info.set_name("n\xff", 2);
    info.set_type(lite::SYMLINK);
    info.set_mtime_ns(-1'500'000'000);
    info.add_xattrs()->set_name("user.x");
    info.set_uid(4'000'000'000);
    const auto full = rpc::parse<v1::FileInfo>(bytes_of(info), "info").value();
    EXPECT_EQ(full.name(), "n\xff");
    EXPECT_EQ(full.type(), v1::SYMLINK);
    EXPECT_EQ(full.mtime_ns(), -1'500'000'000);
    EXPECT_EQ(full.xattrs(0).name(), "user.x");
    EXPECT_EQ(full.uid(), 4'000'000'000u);
}

TEST(Lite, ValuesComeThrough) {
    const auto request = rpc::parse<lite::SetupRequest>(bytes_of(setup_request()), "setup").value();
    EXPECT_EQ(request.disk_bytes(), UINT64_MAX);
    EXPECT_EQ(request.realtime_ns(), INT64_MIN);
    EXPECT_EQ(request.entropy(), std::string("\0\xff\x80", 3));
    EXPECT_EQ(request.container().hosts_size(), 3);
    EXPECT_EQ(request.container().hosts(2).name().size(), 200u);
    EXPECT_EQ(request.container().dns_servers(), (std::vector<std::string>{"1.1.1.1", ""}));
    lite::StartRequest start;
    EXPECT_FALSE(start.process().has_tty());
    EXPECT_EQ(start.process().tty().rows(), 0u);
    start.mutable_process()->mutable_tty()->set_rows(3);
    const lite::StartRequest copy = start;
    start.mutable_process()->mutable_tty()->set_rows(4);
    EXPECT_EQ(copy.process().tty().rows(), 3u);
}

TEST(Lite, UnknownFieldsAndOtherWireTypesArePassedOver) {
    // 1 as a varint and 2 as bytes, where the schema has it the other way; then 15, unknown; then 1 as it
    // should be.
    const std::string bytes = std::string("\x08\x05\x12\x01z\x7d\1\2\3\4\x0a\x03xyz", 15);
    const auto lite = rpc::parse<lite::OpenResponse>(std::string("\x0a\x00", 2), "x").value();
    EXPECT_EQ(lite.handle(), 0u);
    const auto request = rpc::parse<lite::ReadAtResponse>(bytes, "x").value();
    EXPECT_EQ(request.data(), "xyz");
}

TEST(Lite, DamageIsRefusedAsProtobufRefusesIt) {
    v1::StartRequest start;
    start.set_id("main");
    start.mutable_process()->add_argv("sh");
    start.mutable_process()->set_timeout_ms(1000);
    start.mutable_process()->mutable_tty()->set_rows(24);
    const std::string good = bytes_of(start);
    for (size_t length = 0; length <= good.size(); ++length) {
        const std::string_view cut = std::string_view(good).substr(0, length);
        EXPECT_EQ(rpc::parse<lite::StartRequest>(cut, "x").ok(), rpc::parse<v1::StartRequest>(cut, "x").ok())
            << length;
    }
}

}  // namespace
}  // namespace boxlite
