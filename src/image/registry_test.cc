// Pulls from a real docker-registry, by several processes, and through kill -9.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <filesystem>

#include "base/clock.h"
#include "base/id.h"
#include "image/pull.h"
#include "image/test_registry.h"
#include "image/test_server.h"
#include "image/test_tar.h"

namespace boxlite::image {
namespace {

using testing::CuttingProxy;
using testing::make_image;
using testing::make_with_umoci;
using testing::RealRegistry;
using testing::Reply;
using testing::Request;
using testing::run_or_fail;
using testing::serve_image;
using testing::TarBuilder;
using testing::TestImage;
using testing::TestServer;
using namespace std::chrono_literals;

std::string random_text(size_t size) {
    std::string text(size, '\0');
    base::random_bytes({reinterpret_cast<uint8_t*>(text.data()), text.size()});
    return text;
}

class RegistryTest : public ::testing::Test {
  protected:
    RegistryTest() { options_.docker_config = dir_.path() + "/docker"; }

    // An image with a small and a large layer, pushed by skopeo; `flags` go to skopeo.
    void push(const std::string& host, const std::vector<std::string>& flags = {}) {
        const std::string layout = dir_.path() + "/layout";
        make_with_umoci(layout, "v1",
                        {TarBuilder().file("etc/motd", "hello").finish(),
                         TarBuilder().file("data", random_text(4 << 20)).finish()});
        std::vector<std::string> command{"skopeo", "copy", "--dest-tls-verify=false"};
        command.insert(command.end(), flags.begin(), flags.end());
        command.insert(command.end(), {"oci:" + layout + ":v1", "docker://" + host + "/team/app:1"});
        run_or_fail(command);
    }
    // skopeo and umoci see in our store what skopeo saw pushed.
    void expect_foreign_tools_agree(const std::string& reference) {
        const std::string name = store_.root() + ":" + reference;
        const std::string inspected = run_or_fail({"skopeo", "inspect", "--raw", "oci:" + name});
        EXPECT_EQ(Digest::of(base::as_bytes(inspected)).value(),
                  store_.find(reference)->image.manifest.digest);
        const base::TempDir bundle = base::TempDir::make(dir_.path()).value();
        run_or_fail({"umoci", "unpack", "--image", name, bundle.path() + "/b"});
        EXPECT_EQ(base::read_file(bundle.path() + "/b/rootfs/etc/motd").value(), "hello");
        EXPECT_EQ(base::read_file(bundle.path() + "/b/rootfs/data")->size(), size_t{4} << 20);
    }

    base::TempDir dir_ = base::TempDir::make().value();
    Store store_ = Store::open(dir_.path() + "/images").value();
    PullOptions options_;
};

TEST_F(RegistryTest, PullsWhatSkopeoPushed) {
    RealRegistry registry;
    push(registry.host());
    const auto pulled = pull(store_, registry.host() + "/team/app:1", options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->image.config.user, "1000:1000");
    expect_foreign_tools_agree(registry.host() + "/team/app:1");
    const auto missing = pull(store_, registry.host() + "/team/other", options_);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST_F(RegistryTest, PullsDockerManifests) {
    RealRegistry registry;
    const std::string layout = dir_.path() + "/layout";
    make_with_umoci(layout, "v1", {TarBuilder().file("etc/motd", "hello").finish()});
    run_or_fail({"skopeo", "copy", "--format=v2s2", "--dest-tls-verify=false", "oci:" + layout + ":v1",
                 "docker://" + registry.host() + "/app"});
    const auto pulled = pull(store_, registry.host() + "/app", options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    // Kept in OCI's terms, which is all that readers of layouts know, but also known by its original digest.
    EXPECT_EQ(pulled->image.manifest.media_type, media_type::kOciManifest);
    EXPECT_EQ(pulled->image.layers[0].descriptor.media_type, media_type::kOciLayerGzip);
    const std::string original = run_or_fail(
        {"skopeo", "inspect", "--raw", "--tls-verify=false", "docker://" + registry.host() + "/app"});
    const Digest digest = Digest::of(base::as_bytes(original)).value();
    EXPECT_EQ(store_.source_digest(pulled->reference)->value(), digest);
    EXPECT_TRUE(store_.find(registry.host() + "/app@" + digest.to_string()).ok());
    const std::string name = store_.root() + ":" + registry.host() + "/app:latest";
    run_or_fail({"skopeo", "inspect", "oci:" + name});
    run_or_fail({"umoci", "unpack", "--image", name, dir_.path() + "/bundle"});
    EXPECT_EQ(base::read_file(dir_.path() + "/bundle/rootfs/etc/motd").value(), "hello");

    const auto by_digest = pull(store_, registry.host() + "/app@" + digest.to_string(), options_);
    ASSERT_TRUE(by_digest.ok()) << by_digest.error().message;
    EXPECT_EQ(store_.list()->size(), 2u);
}

TEST_F(RegistryTest, LogsInWithAPassword) {
    RealRegistry registry({.htpasswd = run_or_fail({"htpasswd", "-Bbn", "user", "pa:ss"})});
    push(registry.host(), {"--dest-creds=user:pa:ss"});
    const std::string name = registry.host() + "/team/app:1";
    const auto anonymous = pull(store_, name, options_);
    EXPECT_EQ(anonymous.error().code, ErrorCode::kImage);
    EXPECT_NE(anonymous.error().message.find("docker login"), std::string::npos);

    options_.registries = {{.host = registry.host(), .auth = AuthBasic{"user", "wrong"}}};
    EXPECT_NE(pull(store_, name, options_).error().message.find("password is wrong"), std::string::npos);
    options_.registries[0].auth = AuthBasic{"user", "pa:ss"};
    const auto pulled = pull(store_, name, options_);
    EXPECT_TRUE(pulled.ok()) << pulled.error().message;
}

TEST_F(RegistryTest, UsesTheLoginOfAnotherTool) {
    RealRegistry registry({.htpasswd = run_or_fail({"htpasswd", "-Bbn", "user", "pass"})});
    push(registry.host(), {"--dest-creds=user:pass"});
    ASSERT_TRUE(base::make_directories(options_.docker_config).ok());
    run_or_fail({"skopeo", "login", "--tls-verify=false", "--authfile",
                 options_.docker_config + "/config.json", "-u", "user", "-p", "pass", registry.host()});
    const auto pulled = pull(store_, registry.host() + "/team/app:1", options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    expect_foreign_tools_agree(registry.host() + "/team/app:1");
}

TEST_F(RegistryTest, TrustsOnlyTheCertificatesItShould) {
    RealRegistry registry({.tls = true});
    push(registry.host());
    const std::string name = registry.host() + "/team/app:1";
    options_.policy = PullPolicy::kAlways;
    options_.registries = {{.host = registry.host(), .transport = Transport::kHttps}};
    const auto untrusted = pull(store_, name, options_);
    EXPECT_EQ(untrusted.error().code, ErrorCode::kNetwork);
    EXPECT_NE(untrusted.error().message.find("certificate"), std::string::npos) << untrusted.error().message;

    options_.registries[0].ca_file = registry.certificate();
    const auto trusted = pull(store_, name, options_);
    EXPECT_TRUE(trusted.ok()) << trusted.error().message;
    options_.registries[0].ca_file = dir_.path() + "/missing.pem";
    EXPECT_FALSE(pull(store_, name, options_).ok());
    options_.registries[0] = {.host = registry.host(), .transport = Transport::kHttps, .skip_verify = true};
    EXPECT_TRUE(pull(store_, name, options_).ok());
    // The wrong transport is named as such.
    options_.registries[0].transport = Transport::kHttp;
    EXPECT_NE(pull(store_, name, options_).error().message.find("https"), std::string::npos);
}

TEST_F(RegistryTest, SaysWhenARegistrySpeaksPlainHttp) {
    RealRegistry registry;
    options_.registries = {{.host = registry.host(), .transport = Transport::kHttps}};
    EXPECT_NE(pull(store_, registry.host() + "/a", options_).error().message.find("plain http"),
              std::string::npos);
}

TEST_F(RegistryTest, ResumesThroughALineThatKeepsBreaking) {
    RealRegistry registry;
    push(registry.host());
    // Each connection ends, by a reset, after 1 MB from the registry.
    CuttingProxy proxy(registry.port(), [](int) { return std::optional<size_t>(1'000'000); });
    options_.retry_delay = 1ms;
    const auto pulled = pull(store_, proxy.host() + "/team/app:1", options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    expect_foreign_tools_agree(proxy.host() + "/team/app:1");
}

class ProcessTest : public RegistryTest {
  protected:
    base::Process start_pull(const std::string& reference, int err) {
        auto process = base::Process::spawn(
            {.argv = {PULL_PROGRAM, store_.root(), reference}, .fds = {{err, 1}, {err, 2}}});
        EXPECT_TRUE(process.ok());
        return std::move(process).value();
    }
    TestImage image_ = make_image({random_text(700'000), random_text(700'000), random_text(700'000),
                                   random_text(700'000), random_text(700'000), random_text(700'000)});
};

TEST_F(ProcessTest, ShareTheirDownloads) {
    TestServer server([&](const Request& r) { return serve_image(r, image_, "app", "1"); });
    const base::Fd null = base::open_file("/dev/null", O_WRONLY).value();
    std::vector<base::Process> pulls;
    for (int i = 0; i < 4; ++i) pulls.push_back(start_pull(server.host() + "/app:1", null.get()));
    for (base::Process& p : pulls) {
        const auto status = p.wait_for(60s).value();
        ASSERT_TRUE(status.has_value());
        EXPECT_EQ(status->shell_code(), 0);
    }
    for (const auto& layer : image_.layers)
        EXPECT_EQ(server.count("GET", layer.descriptor.digest.to_string()), 1u);
    EXPECT_EQ(store_.list()->size(), 1u);
    EXPECT_EQ(store_.usage()->blob_count, 8u);
    EXPECT_TRUE(std::filesystem::is_empty(store_.root() + "/partial"));
}

TEST_F(ProcessTest, DifferentImagesAtOnceAreAllRecorded) {
    std::map<std::string, TestImage> images;
    for (int i = 0; i < 6; ++i)
        images.emplace(fmt::format("app{}", i), make_image({"shared", random_text(1000)}));
    TestServer server([&](const Request& r) {
        const size_t slash = r.target.find('/', 4);
        const std::string repository = r.target.substr(4, slash - 4);
        return serve_image(r, images.at(repository), repository, "latest");
    });
    const base::Fd null = base::open_file("/dev/null", O_WRONLY).value();
    std::vector<base::Process> pulls;
    for (const auto& [name, image] : images)
        pulls.push_back(start_pull(server.host() + "/" + name, null.get()));
    for (base::Process& p : pulls)
        EXPECT_EQ(p.wait_for(60s).value().value_or(base::ExitStatus{99, 0}).shell_code(), 0);
    EXPECT_EQ(store_.list()->size(), images.size());
}

// Kills the pull with SIGKILL when the server has sent a part of the n-th answer, for every n; each next
// process goes on from there.
TEST_F(ProcessTest, SurvivesKillAtEveryStep) {
    std::mutex mutex;
    std::condition_variable changed;
    bool stalled = false;
    int answers = 0, stall_at = 0;
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        const std::lock_guard lock(mutex);
        if (answers++ == stall_at) {
            reply.cut_after = reply.body.size() / 2;
            reply.stall = true;
            stalled = true;
            changed.notify_all();
        }
        return reply;
    });
    const std::string name = server.host() + "/app:1";
    const base::Fd null = base::open_file("/dev/null", O_WRONLY).value();
    for (int step = 0; step < 10; ++step) {
        {
            const std::lock_guard lock(mutex);
            stalled = false;
            answers = 0;
            stall_at = step;
        }
        base::Process process = start_pull(name, null.get());
        bool reached = false;
        const base::Deadline deadline(60s);
        while (!reached && !deadline.passed()) {
            std::unique_lock lock(mutex);
            reached = changed.wait_for(lock, 100ms, [&] { return stalled; });
            lock.unlock();
            if (!reached && process.wait_for(0ms).value()) break;  // finished: fewer answers were needed
        }
        if (!reached) break;
        ASSERT_TRUE(process.signal(SIGKILL).ok());
        ASSERT_TRUE(process.wait().ok());
        ASSERT_TRUE(Store::open(store_.root()).ok());
        EXPECT_TRUE(store_.list()->empty());
    }
    {
        const std::lock_guard lock(mutex);
        stall_at = -1;
        answers = 0;
    }
    const auto pulled = pull(store_, name, options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    for (const auto& layer : image_.layers)
        EXPECT_EQ(base::read_file(store_.blob_path(layer.descriptor.digest)).value(), layer.content);
    run_or_fail({"skopeo", "inspect", "--raw", "oci:" + store_.root() + ":" + name});
}

}  // namespace
}  // namespace boxlite::image
