#include "agent/trust.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

namespace boxlite::agent {
namespace {

class TrustTest : public testing::Test {
  protected:
    void SetUp() override {
        dir_.emplace(base::TempDir::make().value());
        root_.emplace(base::open_file(dir_->path(), O_PATH | O_DIRECTORY).value());
    }
    std::string path(const std::string& name) const { return dir_->path() + name; }
    void put(const std::string& name, std::string_view text) {
        ASSERT_TRUE(base::make_directories(path(name.substr(0, name.rfind('/')))).ok());
        ASSERT_TRUE(base::write_file_atomically(path(name), base::as_bytes(text)).ok());
    }
    std::string get(const std::string& name) const { return root_->read_text(name, 1 << 20).value(); }
    void trust(const std::vector<std::pair<std::string, std::string>>& authorities) {
        v1::Trust trust;
        for (const auto& [certificates, hash] : authorities) {
            auto& authority = *trust.add_authorities();
            authority.set_certificates(certificates);
            authority.set_hash(hash);
        }
        const auto set = set_trust(*root_, trust);
        ASSERT_TRUE(set.ok()) << set.error().message;
    }
    std::optional<base::TempDir> dir_;
    std::optional<Root> root_;
};

TEST_F(TrustTest, IsAddedToTheStoresOfDebian) {
    put("/etc/ssl/certs/ca-certificates.crt", "image\n");
    put("/usr/local/share/ca-certificates/mine.crt", "mine\n");
    trust({{"ours\n", "0123abcd"}, {"the host's", ""}});
    EXPECT_EQ(get("/etc/ssl/certs/ca-certificates.crt"),
              "image\n# Begin of what BoxLite adds\nours\nthe host's\n# End of what BoxLite adds\n");
    EXPECT_EQ(get("/etc/boxlite/ca-certificates.crt"), get("/etc/ssl/certs/ca-certificates.crt"));
    EXPECT_EQ(get("/etc/boxlite/ca.crt"), "ours\nthe host's\n");
    EXPECT_EQ(get("/usr/local/share/ca-certificates/boxlite.crt"), "ours\nthe host's\n");
    EXPECT_EQ(get("/etc/ssl/certs/0123abcd.0"), "ours\n");
    trust({{"next\n", "4567abcd"}});
    EXPECT_EQ(get("/etc/ssl/certs/ca-certificates.crt"),
              "image\n# Begin of what BoxLite adds\nnext\n# End of what BoxLite adds\n");
    EXPECT_EQ(get("/etc/ssl/certs/4567abcd.0"), "next\n");
    EXPECT_FALSE(base::path_exists(path("/etc/ssl/certs/0123abcd.0")));
    trust({});
    EXPECT_EQ(get("/etc/ssl/certs/ca-certificates.crt"), "image\n");
    EXPECT_FALSE(base::path_exists(path("/usr/local/share/ca-certificates/boxlite.crt")));
    EXPECT_EQ(get("/usr/local/share/ca-certificates/mine.crt"), "mine\n");
}

// Fedora's store is a link.
TEST_F(TrustTest, IsAddedToTheStoreOfFedora) {
    put("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "image");
    ASSERT_TRUE(base::make_directories(path("/etc/pki/tls/certs")).ok());
    ASSERT_TRUE(base::make_directories(path("/etc/pki/ca-trust/source/anchors")).ok());
    ASSERT_EQ(::symlink("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                        path("/etc/pki/tls/certs/ca-bundle.crt").c_str()),
              0);
    trust({{"ours\n", ""}});
    EXPECT_EQ(get("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
              "image\n# Begin of what BoxLite adds\nours\n# End of what BoxLite adds\n");
    EXPECT_EQ(get("/etc/pki/ca-trust/source/anchors/boxlite.crt"), "ours\n");
}

TEST_F(TrustTest, OfAnImageWithoutAStore) {
    trust({});
    EXPECT_FALSE(base::path_exists(path("/etc")));
    trust({{"ours\n", "0123abcd"}});
    EXPECT_EQ(get("/etc/boxlite/ca-certificates.crt"), "ours\n");
    EXPECT_FALSE(base::path_exists(path("/etc/ssl")));
}

// A link out of the box leads nowhere.
TEST_F(TrustTest, StaysInside) {
    const auto outside = base::TempDir::make().value();
    ASSERT_TRUE(base::write_file_atomically(outside.path() + "/store", base::as_bytes("host")).ok());
    ASSERT_TRUE(base::make_directories(path("/etc/ssl")).ok());
    ASSERT_EQ(::symlink((outside.path() + "/store").c_str(), path("/etc/ssl/cert.pem").c_str()), 0);
    ASSERT_EQ(::symlink(outside.path().c_str(), path("/etc/boxlite").c_str()), 0);
    v1::Trust trust;
    trust.add_authorities()->set_certificates("ours\n");
    (void)set_trust(*root_, trust);
    EXPECT_EQ(base::read_file(outside.path() + "/store").value(), "host");
    EXPECT_FALSE(base::path_exists(outside.path() + "/ca.crt"));
}

}  // namespace
}  // namespace boxlite::agent
