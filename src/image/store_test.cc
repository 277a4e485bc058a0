#include "image/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/process.h"
#include "image/test_images.h"

namespace boxlite::image {
namespace {

using testing::Blob;
using testing::blob_of;
using testing::put_image;

class StoreTest : public ::testing::Test {
  protected:
    base::TempDir dir_ = base::TempDir::make().value();
    std::string root_ = dir_.path() + "/images";
    Store store_ = Store::open(root_).value();
    Reference name(std::string_view text) { return Reference::parse(text).value(); }
    size_t partial_files() {
        size_t count = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(root_ + "/partial"))
            ++count;
        return count;
    }
};

TEST_F(StoreTest, RecordsAndResolves) {
    const Descriptor manifest = put_image(store_, {"layer one", "layer two"});
    ASSERT_TRUE(store_.record(name("app:1"), manifest, manifest.digest).ok());
    const Image image = store_.resolve(name("app:1")).value();
    EXPECT_EQ(image.manifest.digest, manifest.digest);
    ASSERT_EQ(image.layers.size(), 2u);
    EXPECT_EQ(base::read_file(store_.blob_path(image.layers[1].descriptor.digest)).value(), "layer two");
    EXPECT_EQ(store_.resolve(name("app:2")).error().code, ErrorCode::kNotFound);

    const auto listed = Store::open(root_)->list().value();
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_EQ(listed[0].reference.to_string(), "docker.io/library/app:1");
    EXPECT_GT(listed[0].stored_at_ns, 1'700'000'000'000'000'000);
}

TEST_F(StoreTest, FindsByNameIdAndDigest) {
    const Descriptor manifest = put_image(store_, {"x"});
    const Digest index_digest = Digest::of(base::as_bytes("the registry's index")).value();
    ASSERT_TRUE(store_.record(name("app:1"), manifest, index_digest).ok());
    const std::string id = store_.resolve(name("app:1"))->config_descriptor.digest.to_string();
    for (const std::string& text :
         {std::string("app:1"), id, id.substr(7), id.substr(7, 4), id.substr(0, 19),
          std::string(manifest.digest.hex().substr(0, 12)), "app@" + manifest.digest.to_string(),
          "app@" + index_digest.to_string()}) {
        const auto found = store_.find(text);
        ASSERT_TRUE(found.ok()) << text << ": " << found.error().message;
        EXPECT_EQ(found->reference.to_string(), "docker.io/library/app:1") << text;
    }
    for (const std::string& text : {std::string("other"), id.substr(7, 3), std::string("Not A Name"),
                                    "other@" + manifest.digest.to_string()})
        EXPECT_EQ(store_.find(text).error().code, ErrorCode::kNotFound) << text;
    EXPECT_EQ(store_.source_digest(name("app:1")).value(), index_digest);
}

TEST_F(StoreTest, RefusesToRecordWhatIsIncomplete) {
    const Descriptor manifest = put_image(store_, {"x", "y"});
    const Image image = [&] {
        EXPECT_TRUE(store_.record(name("a"), manifest, manifest.digest).ok());
        return store_.resolve(name("a")).value();
    }();
    ::unlink(store_.blob_path(image.layers[1].descriptor.digest).c_str());
    EXPECT_EQ(store_.record(name("b"), manifest, manifest.digest).error().code, ErrorCode::kNotFound);
    EXPECT_FALSE(store_.resolve(name("b")).ok());
}

TEST_F(StoreTest, RemovesOnlyWhatNoOtherNameNeeds) {
    const Descriptor first = put_image(store_, {"shared", "only in first"});
    const Descriptor second = put_image(store_, {"shared", "only in second!"});
    ASSERT_TRUE(store_.record(name("first"), first, first.digest).ok());
    ASSERT_TRUE(store_.record(name("second"), second, second.digest).ok());
    ASSERT_TRUE(store_.tag(name("first"), name("again:1")).ok());
    const Image image = store_.resolve(name("first")).value();
    EXPECT_EQ(store_.unique_size(image).value(), image.size() - std::string("shared").size());

    EXPECT_EQ(store_.remove(name("first"))->freed_bytes, 0u);
    EXPECT_TRUE(store_.resolve(name("again:1")).ok());
    const Removed removed = store_.remove(name("again:1")).value();
    EXPECT_EQ(removed.freed_bytes, image.size() - std::string("shared").size());
    EXPECT_TRUE(store_.resolve(name("second")).ok());
    EXPECT_EQ(store_.remove(name("first")).error().code, ErrorCode::kNotFound);

    const StoreUsage usage = store_.usage().value();
    EXPECT_EQ(usage.blob_count, 4u);
    EXPECT_EQ(usage.blob_bytes, store_.resolve(name("second"))->size());
    EXPECT_EQ(usage.unreferenced_bytes, 0u);
}

TEST_F(StoreTest, RemovesEveryNameOfAnImage) {
    const Descriptor manifest = put_image(store_, {"x"});
    for (const char* n : {"a", "b", "c"}) ASSERT_TRUE(store_.record(name(n), manifest, manifest.digest).ok());
    const Digest id = store_.resolve(name("a"))->config_descriptor.digest;
    EXPECT_EQ(store_.remove_image(id)->untagged.size(), 3u);
    EXPECT_EQ(store_.usage()->blob_count, 0u);
}

TEST_F(StoreTest, CollectsLaterWhatALeaseProtects) {
    const Descriptor manifest = put_image(store_, {"x"});
    ASSERT_TRUE(store_.record(name("a"), manifest, manifest.digest).ok());
    {
        const StoreLease lease = store_.hold().value();
        EXPECT_TRUE(store_.remove(name("a"))->postponed);
        EXPECT_EQ(store_.usage()->blob_count, 3u);
    }
    EXPECT_TRUE(store_.collect_if_wanted().ok());
    EXPECT_EQ(store_.usage()->blob_count, 0u);
    EXPECT_FALSE(base::path_exists(root_ + "/gc.wanted"));
}

TEST_F(StoreTest, WritesBlobsOnlyWhenTheyMatch) {
    const Blob blob = blob_of("application/x", "0123456789");
    {
        BlobStart start = store_.begin_blob(blob.descriptor).value();
        ASSERT_TRUE(start.writer);
        ASSERT_TRUE(start.writer->append(base::as_bytes("01234")).ok());
        // Another writer has to wait.
        const BlobStart other = store_.begin_blob(blob.descriptor).value();
        EXPECT_FALSE(other.present);
        EXPECT_FALSE(other.writer);
        EXPECT_EQ(store_.partial_size(blob.descriptor.digest), 5u);
    }
    {  // Resumed.
        BlobStart start = store_.begin_blob(blob.descriptor).value();
        ASSERT_TRUE(start.writer);
        EXPECT_EQ(start.writer->offset(), 5u);
        EXPECT_EQ(start.writer->append(base::as_bytes("567890")).error().code, ErrorCode::kImage);
        ASSERT_TRUE(start.writer->append(base::as_bytes("56789")).ok());
        EXPECT_FALSE(store_.has_blob(blob.descriptor));
        ASSERT_TRUE(start.writer->commit().ok());
    }
    EXPECT_TRUE(store_.has_blob(blob.descriptor));
    EXPECT_TRUE(store_.begin_blob(blob.descriptor)->present);
    EXPECT_EQ(partial_files(), 0u);
}

TEST_F(StoreTest, KeepsNothingOfABlobThatDoesNotMatch) {
    Blob blob = blob_of("application/x", "0123456789");
    {
        BlobStart start = store_.begin_blob(blob.descriptor).value();
        ASSERT_TRUE(start.writer->append(base::as_bytes("012345678X")).ok());
        EXPECT_EQ(start.writer->commit().error().code, ErrorCode::kImage);
    }
    blob.descriptor.size = 12;  // the digest is right, the announced size is not
    {
        BlobStart start = store_.begin_blob(blob.descriptor).value();
        EXPECT_EQ(start.writer->offset(), 0u);
        ASSERT_TRUE(start.writer->append(base::as_bytes("0123456789")).ok());
        EXPECT_EQ(start.writer->commit().error().code, ErrorCode::kImage);
    }
    EXPECT_EQ(store_.put_blob(blob.descriptor, "0123456789").error().code, ErrorCode::kImage);
    EXPECT_EQ(partial_files(), 0u);
    EXPECT_EQ(store_.usage()->blob_count, 0u);
}

TEST_F(StoreTest, DropsOnlyInterruptedDownloadsThatNobodyResumes) {
    const Blob fresh = blob_of("application/x", "fresh"), old = blob_of("application/x", "old");
    for (const Blob& blob : {fresh, old})
        ASSERT_TRUE(store_.begin_blob(blob.descriptor)->writer->append(base::as_bytes("x")).ok());
    const timespec then[2] = {{::time(nullptr) - 8 * 24 * 3600, 0}, {::time(nullptr) - 8 * 24 * 3600, 0}};
    const std::string path = fmt::format("{}/partial/sha256-{}", root_, old.descriptor.digest.hex());
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), then, 0), 0);
    ASSERT_TRUE(base::make_directories(root_ + "/partial/boxlite-killed/x").ok());
    EXPECT_EQ(store_.collect_garbage()->freed_bytes, 1u);
    EXPECT_EQ(partial_files(), 1u);
    EXPECT_EQ(store_.partial_size(fresh.descriptor.digest), 1u);
    EXPECT_EQ(store_.collect_garbage(true)->freed_bytes, 1u);
    EXPECT_EQ(partial_files(), 0u);
}

TEST_F(StoreTest, DetectsDamage) {
    const Descriptor manifest = put_image(store_, {"x"});
    ASSERT_TRUE(store_.record(name("a"), manifest, manifest.digest).ok());
    const std::string path = store_.blob_path(manifest.digest);
    std::string content = base::read_file(path).value();
    content.back() = ' ';
    ASSERT_TRUE(base::write_file_atomically(path, base::as_bytes(content)).ok());
    EXPECT_EQ(store_.resolve(name("a")).error().code, ErrorCode::kImage);
    EXPECT_TRUE(store_.list()->empty());
    EXPECT_TRUE(store_.remove(name("a")).ok());
}

TEST_F(StoreTest, OpensOnlyItsOwnKindOfFolder) {
    ASSERT_TRUE(base::make_directories(dir_.path() + "/other/documents").ok());
    EXPECT_EQ(Store::open(dir_.path() + "/other").error().code, ErrorCode::kStorage);
    ASSERT_TRUE(base::write_file_atomically(root_ + "/oci-layout",
                                            base::as_bytes(R"({"imageLayoutVersion":"2.0.0"})"))
                    .ok());
    EXPECT_EQ(Store::open(root_).error().code, ErrorCode::kStorage);
}

TEST_F(StoreTest, KeepsWhatOtherToolsPutIntoTheIndex) {
    const Descriptor manifest = put_image(store_, {"x"});
    ASSERT_TRUE(store_.record(name("a"), manifest, manifest.digest).ok());
    ASSERT_EQ(base::run_command({"skopeo", "copy", "oci:" + root_ + ":docker.io/library/a:latest",
                                 "oci:" + root_ + ":b/c:1"})
                  ->status.shell_code(),
              0);
    ASSERT_TRUE(store_.tag(name("a"), name("d")).ok());
    EXPECT_EQ(store_.list()->size(), 3u);
    EXPECT_EQ(store_.resolve(name("b/c:1"))->manifest.digest, manifest.digest);
    const auto listed = base::run_command({"umoci", "ls", "--layout", root_}).value();
    EXPECT_EQ(listed.out, "docker.io/library/a:latest\nb/c:1\ndocker.io/library/d:latest\n");
    const auto inspected =
        base::run_command({"skopeo", "inspect", "oci:" + root_ + ":docker.io/library/d:latest"}).value();
    EXPECT_EQ(inspected.status.shell_code(), 0) << inspected.err;
    EXPECT_NE(inspected.out.find(manifest.digest.to_string()), std::string::npos);
}

}  // namespace
}  // namespace boxlite::image
