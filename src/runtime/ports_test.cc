#include "runtime/ports.h"

#include <gtest/gtest.h>

namespace boxlite::runtime {
namespace {

std::string parsed(std::string_view text) {
    const auto ports = parse_ports(text);
    if (!ports.ok()) return "error";
    std::string all;
    for (const PortMapping& port : *ports) all += (all.empty() ? "" : " ") + to_text(port);
    return all;
}

TEST(Ports, AreReadAsDockerWritesThem) {
    EXPECT_EQ(parsed("80"), "127.0.0.1:0:80/tcp");
    EXPECT_EQ(parsed(":80"), "127.0.0.1:0:80/tcp");
    EXPECT_EQ(parsed("8080:80"), "127.0.0.1:8080:80/tcp");
    EXPECT_EQ(parsed("0:80"), "127.0.0.1:0:80/tcp");
    EXPECT_EQ(parsed("53:53/udp"), "127.0.0.1:53:53/udp");
    EXPECT_EQ(parsed("0.0.0.0:8080:80/tcp"), "0.0.0.0:8080:80/tcp");
    EXPECT_EQ(parsed("127.0.0.2::80"), "127.0.0.2:0:80/tcp");
    EXPECT_EQ(parsed("[::1]:8080:80"), "[::1]:8080:80/tcp");
    EXPECT_EQ(parsed("8000-8002:80-82"), "127.0.0.1:8000:80/tcp 127.0.0.1:8001:81/tcp 127.0.0.1:8002:82/tcp");
    EXPECT_EQ(parsed("80-81/udp"), "127.0.0.1:0:80/udp 127.0.0.1:0:81/udp");
    EXPECT_EQ(parsed("65535:65535"), "127.0.0.1:65535:65535/tcp");
    EXPECT_EQ(parsed(parsed("[::1]:8080:80")), "[::1]:8080:80/tcp");
}

TEST(Ports, NonsenseIsAnError) {
    for (const char* text :
         {"", "0", "x", "80:", "80:0", "65536:80", "80:65536", "1-3:1-2", "3-1:3-1", "80/sctp", "80/",
          "localhost:80:80", "1.2.3:80:80", "::1:80:80:", "-1:80", "8 0:80", "0x50:80"})
        EXPECT_EQ(parsed(text), "error") << text;
}

}  // namespace
}  // namespace boxlite::runtime
