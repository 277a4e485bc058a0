#include "image/import.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/process.h"
#include "image/import_source.h"
#include "image/test_images.h"
#include "image/test_tar.h"

namespace boxlite::image {
namespace {

using testing::Blob;
using testing::make_image;
using testing::make_with_umoci;
using testing::run_or_fail;
using testing::TarBuilder;
using testing::TestImage;
using testing::write_file;

class ImportTest : public ::testing::Test {
  protected:
    Result<std::vector<StoredImage>> import(const std::string& path) {
        return import_images(store_, path, options_);
    }
    Result<std::vector<StoredImage>> import_tar(const TarBuilder& tar) {
        return import(write_file(dir_.path() + "/archive.tar", tar.finish()));
    }
    std::vector<std::string> names(const Result<std::vector<StoredImage>>& images) {
        std::vector<std::string> names;
        EXPECT_TRUE(images.ok()) << (images.ok() ? "" : images.error().message);
        if (images.ok())
            for (const StoredImage& image : *images) names.push_back(image.reference.to_string());
        return names;
    }
    void expect_refused(const Result<std::vector<StoredImage>>& images, ErrorCode code,
                        std::string_view part) {
        ASSERT_FALSE(images.ok());
        EXPECT_EQ(images.error().code, code) << images.error().message;
        EXPECT_NE(images.error().message.find(part), std::string::npos) << images.error().message;
        EXPECT_TRUE(store_.list()->empty());
        EXPECT_TRUE(std::filesystem::is_empty(store_.root() + "/partial"));
    }
    std::string layout_with(const std::string& tag) {
        const std::string layout = dir_.path() + "/My Layout";
        make_with_umoci(layout, tag,
                        {TarBuilder().file("etc/one", "1").finish(),
                         TarBuilder().file("etc/two", std::string(100'000, '2')).finish()});
        return layout;
    }

    base::TempDir dir_ = base::TempDir::make().value();
    Store store_ = Store::open(dir_.path() + "/images").value();
    ImportOptions options_;
};

TEST_F(ImportTest, LayoutOfUmoci) {
    const std::string layout = layout_with("v1");
    EXPECT_EQ(names(import(layout)), std::vector<std::string>{"docker.io/library/my-layout:v1"});
    const Image image = store_.find("my-layout:v1")->image;
    EXPECT_EQ(image.layers.size(), 2u);
    EXPECT_EQ(image.config.env.back(), "GREETING=hello");
    EXPECT_EQ(image.config.cmd, std::vector<std::string>{"/bin/app"});
    EXPECT_EQ(image.config.user, "1000:1000");
    EXPECT_EQ(image.config.working_dir, "/srv");

    // Foreign tools read what we stored.
    const std::string name = store_.root() + ":docker.io/library/my-layout:v1";
    EXPECT_NE(
        run_or_fail({"skopeo", "inspect", "oci:" + name}).find(image.layers[1].descriptor.digest.to_string()),
        std::string::npos);
    run_or_fail({"umoci", "unpack", "--image", name, dir_.path() + "/bundle"});
    EXPECT_EQ(base::read_file(dir_.path() + "/bundle/rootfs/etc/one").value(), "1");
    EXPECT_EQ(base::read_file(dir_.path() + "/bundle/rootfs/etc/two")->size(), 100'000u);
    EXPECT_TRUE(std::filesystem::is_empty(store_.root() + "/partial"));
}

TEST_F(ImportTest, NamesComeFromArchiveOptionOrFile) {
    const std::string layout = layout_with("v1");
    options_.name = "mine";
    EXPECT_EQ(names(import(layout)), std::vector<std::string>{"docker.io/library/mine:v1"});
    options_.name = "localhost/mine:v2";
    EXPECT_EQ(names(import(layout)), std::vector<std::string>{"localhost/mine:v2"});
    options_.name = "Not Valid";
    EXPECT_EQ(import(layout).error().code, ErrorCode::kInvalidArgument);

    run_or_fail({"umoci", "tag", "--image", layout + ":v1", "quay.io/a/b:c"});
    options_.name = "";
    EXPECT_EQ(names(import(layout)),
              (std::vector<std::string>{"docker.io/library/my-layout:v1", "quay.io/a/b:c"}));
    options_.name = "mine:v3";
    EXPECT_EQ(import(layout).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ImportTest, ArchivesOfSkopeo) {
    const std::string layout = layout_with("v1"), from = "oci:" + layout + ":v1";
    run_or_fail({"skopeo", "copy", from, "oci-archive:" + dir_.path() + "/a.tar:quay.io/x/oci:1"});
    run_or_fail({"skopeo", "copy", from, "docker-archive:" + dir_.path() + "/b.tar:quay.io/x/docker:1"});
    run_or_fail({"gzip", "-k", dir_.path() + "/b.tar"});
    EXPECT_EQ(names(import(dir_.path() + "/a.tar")), std::vector<std::string>{"quay.io/x/oci:1"});
    EXPECT_EQ(names(import(dir_.path() + "/b.tar")), std::vector<std::string>{"quay.io/x/docker:1"});
    EXPECT_EQ(names(import(dir_.path() + "/b.tar.gz")), std::vector<std::string>{"quay.io/x/docker:1"});

    const Image oci = store_.find("quay.io/x/oci:1")->image,
                docker = store_.find("quay.io/x/docker:1")->image;
    EXPECT_EQ(oci.chain_id().value(), docker.chain_id().value());
    EXPECT_EQ(docker.layers[0].descriptor.media_type, media_type::kOciLayer);
    EXPECT_EQ(docker.config.env.back(), "GREETING=hello");
    run_or_fail(
        {"umoci", "unpack", "--image", store_.root() + ":quay.io/x/docker:1", dir_.path() + "/bundle"});
    EXPECT_EQ(base::read_file(dir_.path() + "/bundle/rootfs/etc/one").value(), "1");
}

TEST_F(ImportTest, AnUnpackedDockerArchiveIsAnArchiveToo) {
    run_or_fail({"skopeo", "copy", "oci:" + layout_with("v1") + ":v1",
                 "docker-archive:" + dir_.path() + "/b.tar:app:1"});
    ASSERT_TRUE(base::make_directories(dir_.path() + "/b").ok());
    run_or_fail({"tar", "-xf", dir_.path() + "/b.tar", "-C", dir_.path() + "/b"});
    EXPECT_EQ(names(import(dir_.path() + "/b")), std::vector<std::string>{"docker.io/library/app:1"});
}

// A `docker save` archive made by hand.
struct DockerArchive {
    std::string layer = TarBuilder().file("f", "content").finish();
    std::string diff_id = Digest::of(base::as_bytes(layer))->to_string();
    std::string config =
        fmt::format(R"({{"os":"linux","architecture":"{}","rootfs":{{"type":"layers","diff_ids":["{}"]}}}})",
                    Platform::host().architecture, diff_id);
    std::string config_name = std::string(Digest::of(base::as_bytes(config))->hex()) + ".json";
    std::string tags = R"(["app:1"])";
    std::string layer_name = "abc/layer.tar";

    TarBuilder tar() const {
        return TarBuilder()
            .file("manifest.json", fmt::format(R"([{{"Config":"{}","RepoTags":{},"Layers":["{}"]}}])",
                                               config_name, tags, layer_name))
            .file(config_name, config);
    }
};

TEST_F(ImportTest, DockerArchiveWithLinksBetweenLayers) {
    DockerArchive a;
    EXPECT_EQ(names(import_tar(a.tar()
                                   .directory("abc/")
                                   .symlink("abc/layer.tar", "../def/layer.tar")
                                   .file("./def/layer.tar", a.layer))),
              std::vector<std::string>{"docker.io/library/app:1"});
    a.tags = R"(["hard:1","localhost/hard:2"])";
    EXPECT_EQ(names(import_tar(a.tar().file("x.tar", a.layer).hardlink("abc/layer.tar", "x.tar"))),
              (std::vector<std::string>{"docker.io/library/hard:1", "localhost/hard:2"}));
    a.tags = "null";
    EXPECT_EQ(names(import_tar(a.tar().file("abc/layer.tar", a.layer))),
              std::vector<std::string>{"docker.io/library/archive:latest"});
}

TEST_F(ImportTest, DockerArchiveWithCompressedLayers) {
    DockerArchive a;
    const std::string gzip = run_or_fail({"gzip", "-c"}, a.layer),
                      zstd = run_or_fail({"zstd", "-c"}, a.layer);
    ASSERT_EQ(names(import_tar(a.tar().file("abc/layer.tar", gzip))).size(), 1u);
    EXPECT_EQ(store_.find("app:1")->image.layers[0].descriptor.media_type, media_type::kOciLayerGzip);
    ASSERT_EQ(names(import_tar(a.tar().file("abc/layer.tar", zstd))).size(), 1u);
    EXPECT_EQ(store_.find("app:1")->image.layers[0].descriptor.media_type, media_type::kOciLayerZstd);
    EXPECT_EQ(store_.find("app:1")->image.layers[0].diff_id.to_string(), a.diff_id);
    EXPECT_EQ(import_tar(a.tar().file("abc/layer.tar", run_or_fail({"xz", "-c"}, a.layer))).error().code,
              ErrorCode::kUnsupported);
}

TEST_F(ImportTest, SeveralImagesMayShareALayer) {
    DockerArchive a;
    const std::string entry =
        fmt::format(R"({{"Config":"{}","RepoTags":["TAG"],"Layers":["l.tar"]}})", a.config_name);
    std::string first = entry, second = entry;
    first.replace(first.find("TAG"), 3, "one:1");
    second.replace(second.find("TAG"), 3, "two:2");
    EXPECT_EQ(names(import_tar(TarBuilder()
                                   .file("l.tar", a.layer)
                                   .file(a.config_name, a.config)
                                   .file("manifest.json", "[" + first + "," + second + "]")))
                  .size(),
              2u);
}

TEST_F(ImportTest, LegacyLayout) {
    const std::string top(64, 'a'), base_id(64, 'b');
    const std::string lower = TarBuilder().file("low", "1").finish(),
                      upper = TarBuilder().file("up", "2").finish();
    const auto archive = [&](std::string_view parent_of_base) {
        return TarBuilder()
            .file("repositories", fmt::format(R"({{"old/app":{{"1.0":"{}"}}}})", top))
            .file(top + "/json",
                  fmt::format(
                      R"({{"id":"{}","parent":"{}","os":"linux","config":{{"Cmd":["sh"],"Env":["A=b"]}}}})",
                      top, base_id))
            .file(top + "/layer.tar", upper)
            .file(top + "/VERSION", "1.0")
            .file(base_id + "/json", fmt::format(R"({{"id":"{}"{}}})", base_id, parent_of_base))
            .file(base_id + "/layer.tar", lower);
    };
    EXPECT_EQ(names(import_tar(archive(""))), std::vector<std::string>{"docker.io/old/app:1.0"});
    const Image image = store_.find("old/app:1.0")->image;
    EXPECT_EQ(image.config.cmd, std::vector<std::string>{"sh"});
    ASSERT_EQ(image.layers.size(), 2u);
    EXPECT_EQ(image.layers[0].diff_id, Digest::of(base::as_bytes(lower)).value());
    ASSERT_TRUE(store_.remove(Reference::parse("old/app:1.0").value()).ok());
    expect_refused(import_tar(archive(fmt::format(R"(,"parent":"{}")", top))), ErrorCode::kImage,
                   "does not end");
}

TEST_F(ImportTest, RefusesContentThatIsNotWhatItSays) {
    DockerArchive a;
    expect_refused(import_tar(a.tar().file("abc/layer.tar", a.layer + "x")), ErrorCode::kImage,
                   "abc/layer.tar");
    a.config += " ";
    expect_refused(import_tar(a.tar().file("abc/layer.tar", a.layer)), ErrorCode::kImage, a.config_name);
    expect_refused(import_tar(TarBuilder().file("hello", "x")), ErrorCode::kImage, "docker save");
    expect_refused(import(write_file(dir_.path() + "/noise", "not an archive at all")), ErrorCode::kImage,
                   "noise");
    expect_refused(import(dir_.path() + "/missing"), ErrorCode::kNotFound, "missing");
}

TEST_F(ImportTest, RefusesALayoutWithDamagedBlobs) {
    const TestImage good = make_image({"some layer"});
    const auto layout = [&](const Blob* damaged, const Blob* missing) {
        const Descriptor& m = good.manifest.descriptor;
        TarBuilder tar;
        tar.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
        tar.file(
            "index.json",
            fmt::format(R"({{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{}","size":{}}}]}})",
                        m.media_type, m.digest.to_string(), m.size));
        for (const Blob& blob : good.blobs()) {
            std::string content = blob.content;
            if (damaged && blob.descriptor.digest == damaged->descriptor.digest) content.back() = '\n';
            if (!missing || blob.descriptor.digest != missing->descriptor.digest)
                tar.file("blobs/sha256/" + std::string(blob.descriptor.digest.hex()), content);
        }
        return tar;
    };
    for (const Blob& blob : good.blobs()) {
        expect_refused(import_tar(layout(&blob, nullptr)), ErrorCode::kImage,
                       blob.descriptor.digest.to_string());
        expect_refused(import_tar(layout(nullptr, &blob)), ErrorCode::kNotFound,
                       blob.descriptor.digest.hex());
        EXPECT_FALSE(store_.has_blob(blob.descriptor));
        ASSERT_TRUE(store_.collect_garbage().ok());
    }
    EXPECT_EQ(names(import_tar(layout(nullptr, nullptr))),
              std::vector<std::string>{"docker.io/library/archive:latest"});
}

TEST_F(ImportTest, NothingLeavesTheStagingFolder) {
    const DockerArchive a;
    write_file(dir_.path() + "/victim", "untouched");
    const std::string up = "../../../../../../../../" + dir_.path().substr(1) + "/";
    const auto whole = [&] { return a.tar().file("abc/layer.tar", a.layer); };
    expect_refused(import_tar(whole().file(up + "victim", "x")), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(whole().file(dir_.path() + "/victim", "x")), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(whole().file("a/../../x", "x")), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(whole().directory("..")), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(whole().hardlink("h", up + "victim")), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(whole().hardlink("h", "nowhere")), ErrorCode::kImage, "nowhere");
    expect_refused(import_tar(whole().file("abc/layer.tar", "again")), ErrorCode::kImage, "twice");
    expect_refused(import_tar(whole().add("dev", '3', "", "")), ErrorCode::kImage, "'dev'");
    expect_refused(import_tar(whole().add("fifo", '6', "", "")), ErrorCode::kImage, "'fifo'");
    // Links are only looked at when they are used, and then only among the archive's own names.
    for (const std::string& target : {up + "victim", dir_.path() + "/victim", std::string("/etc/passwd")})
        expect_refused(import_tar(a.tar().symlink("abc/layer.tar", target)), ErrorCode::kImage, "leads out");
    expect_refused(import_tar(a.tar().symlink("abc/layer.tar", "loop").symlink("abc/loop", "layer.tar")),
                   ErrorCode::kImage, "loop");
    EXPECT_EQ(base::read_file(dir_.path() + "/victim").value(), "untouched");
}

TEST_F(ImportTest, AFolderIsNotLeftThroughItsLinks) {
    const DockerArchive a;
    const std::string folder = dir_.path() + "/folder";
    ASSERT_TRUE(base::make_directories(folder + "/abc").ok());
    const std::string tar = write_file(dir_.path() + "/a.tar", a.tar().finish());
    run_or_fail({"tar", "-xf", tar, "-C", folder});
    write_file(dir_.path() + "/layer.tar", a.layer);
    ASSERT_EQ(::symlink("../../layer.tar", (folder + "/abc/layer.tar").c_str()), 0);
    expect_refused(import(folder), ErrorCode::kImage, "leads out");
    ::unlink((folder + "/abc/layer.tar").c_str());
    ASSERT_EQ(::mkfifo((folder + "/abc/layer.tar").c_str(), 0600), 0);
    expect_refused(import(folder), ErrorCode::kImage, "regular file");
    ::unlink((folder + "/abc/layer.tar").c_str());
    write_file(folder + "/inside.tar", a.layer);
    ASSERT_EQ(::symlink("../inside.tar", (folder + "/abc/layer.tar").c_str()), 0);
    EXPECT_EQ(names(import(folder)), std::vector<std::string>{"docker.io/library/app:1"});
}

TEST_F(ImportTest, StopsAtTheLimit) {
    DockerArchive a;
    options_.max_bytes = 4096;
    expect_refused(import_tar(a.tar().file("zeros", std::string(8192, '\0'))), ErrorCode::kResourceExhausted,
                   "4096");
    std::stop_source stop;
    stop.request_stop();
    options_.stop = stop.get_token();
    expect_refused(import_tar(a.tar().file("abc/layer.tar", a.layer)), ErrorCode::kStopped, "stopped");
}

TEST_F(ImportTest, ChoosesThePlatform) {
    const TestImage image = make_image({"x"});
    const Descriptor& m = image.manifest.descriptor;
    const auto entry = [&](std::string_view arch) {
        return fmt::format(
            R"({{"mediaType":"{}","digest":"{}","size":{},"platform":{{"os":"linux","architecture":"{}"}}}})",
            m.media_type, m.digest.to_string(), m.size, arch);
    };
    const std::string index = fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})",
                                          media_type::kOciIndex, entry(Platform::host().architecture));
    const Digest index_digest = Digest::of(base::as_bytes(index)).value();
    const auto layout = [&](const std::string& entries) {
        TarBuilder tar;
        tar.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
        tar.file("index.json", fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", entries));
        tar.file("blobs/sha256/" + std::string(index_digest.hex()), index);
        for (const Blob& blob : image.blobs())
            tar.file("blobs/sha256/" + std::string(blob.descriptor.digest.hex()), blob.content);
        return tar;
    };
    const std::string nested = fmt::format(
        R"({{"mediaType":"{}","digest":"{}","size":{},"annotations":{{"io.containerd.image.name":"docker.io/n/n:1"}}}})",
        media_type::kOciIndex, index_digest.to_string(), index.size());
    EXPECT_EQ(names(import_tar(layout(nested + "," + entry("s390x")))),
              std::vector<std::string>{"docker.io/n/n:1"});
    EXPECT_EQ(store_.find("n/n:1")->image.manifest.digest, m.digest);
    EXPECT_TRUE(store_.find("n/n@" + index_digest.to_string()).ok());
    ASSERT_TRUE(store_.remove(Reference::parse("n/n:1").value()).ok());
    expect_refused(import_tar(layout(entry("s390x"))), ErrorCode::kNotFound, "linux/s390x");
}

TEST(ArchiveNames, AreCleanedOrRefused) {
    EXPECT_EQ(clean_archive_name("./a//b/./c").value(), "a/b/c");
    EXPECT_EQ(clean_archive_name("a/b/").value(), "a/b");
    for (const char* name : {"/a", "..", "../a", "a/..", "a/../b", "./../a"})
        EXPECT_FALSE(clean_archive_name(name).ok()) << name;
    const std::string folder = "x/y";
    EXPECT_EQ(clean_archive_name("../z", &folder).value(), "x/z");
    EXPECT_EQ(clean_archive_name("../../z", &folder).value(), "z");
    EXPECT_FALSE(clean_archive_name("../../../z", &folder).ok());
    EXPECT_FALSE(clean_archive_name("/z", &folder).ok());
}

}  // namespace
}  // namespace boxlite::image
