#include "image/image.h"

#include <gtest/gtest.h>

namespace boxlite::image {
namespace {

std::string hex_digest(char c) {
    return "sha256:" + std::string(64, c);
}

std::string descriptor(std::string_view type, char c, int size = 10, std::string_view more = "") {
    return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}{}}})", type, hex_digest(c), size, more);
}

std::string manifest_text(std::string_view type = media_type::kOciManifest) {
    return fmt::format(
        R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{},{}],"annotations":{{"k":"v"}}}})",
        type, descriptor(media_type::kOciConfig, 'c'), descriptor(media_type::kOciLayerGzip, '1', 100),
        descriptor(media_type::kOciLayerZstd, '2', 200));
}

std::string index_entry(char c, std::string_view os, std::string_view arch, std::string_view variant = "") {
    return descriptor(
        media_type::kOciManifest, c, 10,
        fmt::format(R"(,"platform":{{"os":"{}","architecture":"{}","variant":"{}"}})", os, arch, variant));
}

Index index_of(std::vector<std::string> entries) {
    const auto parsed =
        parse_manifest(fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})",
                                   media_type::kOciIndex, fmt::join(entries, ",")),
                       media_type::kOciIndex);
    EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
    return std::get<Index>(*parsed);
}

TEST(Manifest, ParsesOciAndDocker) {
    const Manifest manifest =
        std::get<Manifest>(parse_manifest(manifest_text(), media_type::kOciManifest).value());
    EXPECT_EQ(manifest.config.digest.to_string(), hex_digest('c'));
    ASSERT_EQ(manifest.layers.size(), 2u);
    EXPECT_EQ(manifest.layers[1].size, 200u);
    EXPECT_EQ(manifest.annotations.at("k"), "v");
    EXPECT_TRUE(parse_manifest(manifest_text(media_type::kDockerManifest), "").ok());
    // A registry that serves everything as plain JSON says nothing about the type.
    EXPECT_TRUE(parse_manifest(manifest_text(), "application/json").ok());
}

TEST(Manifest, RefusesTypeConfusion) {
    const std::string both = fmt::format(R"({{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}})",
                                         descriptor(media_type::kOciConfig, 'c'));
    const std::string index = R"({"schemaVersion":2,"manifests":[]})";
    const std::string schema1 = R"({"schemaVersion":1,"fsLayers":[],"history":[]})";
    EXPECT_FALSE(parse_manifest(both, media_type::kOciManifest).ok());
    EXPECT_FALSE(parse_manifest(both, media_type::kOciIndex).ok());
    EXPECT_FALSE(parse_manifest(both, "").ok());
    EXPECT_FALSE(parse_manifest(index, media_type::kOciManifest).ok());
    EXPECT_TRUE(parse_manifest(index, media_type::kOciIndex).ok());
    EXPECT_FALSE(parse_manifest(manifest_text(), media_type::kOciIndex).ok());
    EXPECT_FALSE(parse_manifest(manifest_text(media_type::kDockerManifest), media_type::kOciManifest).ok());
    EXPECT_FALSE(parse_manifest(manifest_text(media_type::kOciIndex), media_type::kOciIndex).ok());
    EXPECT_FALSE(parse_manifest(manifest_text("application/x-other"), "").ok());
    EXPECT_FALSE(parse_manifest(schema1, "").ok());
    EXPECT_EQ(
        parse_manifest(schema1, "application/vnd.docker.distribution.manifest.v1+prettyjws").error().code,
        ErrorCode::kUnsupported);
}

TEST(Manifest, RefusesBrokenDescriptors) {
    const std::string good = manifest_text();
    const auto with = [&](std::string_view from, std::string_view to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        return parse_manifest(text, "");
    };
    EXPECT_FALSE(with(R"("size":100)", R"("size":-1)").ok());
    EXPECT_FALSE(with(R"("size":100)", R"("size":"100")").ok());
    EXPECT_FALSE(with(R"("size":100)", R"("size":18446744073709551615)").ok());
    EXPECT_FALSE(with(R"("size":100)", R"("length":100)").ok());
    EXPECT_FALSE(with(hex_digest('1'), "sha256:../../../../etc/passwd").ok());
    EXPECT_FALSE(with(R"("schemaVersion":2)", R"("schemaVersion":3)").ok());
    EXPECT_FALSE(with(R"("schemaVersion":2)", R"("schemaVersion":2,"schemaVersion":2)").ok());
    EXPECT_NE(with(hex_digest('1'), "sha256:x").error().message.find("manifest.layers[0].digest"),
              std::string::npos);
}

TEST(Platform, ChoosesTheBestVariant) {
    const Index index =
        index_of({index_entry('1', "linux", "arm", "v5"), index_entry('2', "linux", "arm", "v7"),
                  index_entry('3', "linux", "arm64", "v8"), index_entry('4', "linux", "amd64"),
                  index_entry('5', "linux", "amd64", "v3"), index_entry('6', "windows", "amd64"),
                  index_entry('7', "unknown", "unknown"), index_entry('8', "linux", "arm", "v6")});
    const auto chosen = [&](std::string_view platform) {
        const auto found = select_platform(index, Platform::parse(platform).value());
        return found.ok() ? found->at(0).digest.hex()[0] : '-';
    };
    EXPECT_EQ(chosen("linux/amd64"), '4');
    EXPECT_EQ(chosen("linux/amd64/v3"), '5');
    EXPECT_EQ(chosen("linux/amd64/v2"), '4');
    EXPECT_EQ(chosen("linux/arm64"), '3');
    EXPECT_EQ(chosen("aarch64"), '3');
    EXPECT_EQ(chosen("linux/arm"), '2');
    EXPECT_EQ(chosen("linux/arm/v6"), '8');
    EXPECT_EQ(chosen("linux/s390x"), '-');
    const auto missing = select_platform(index, Platform::parse("riscv64").value());
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().message.find("linux/arm64/v8"), std::string::npos);
}

TEST(Platform, TakesALoneEntryThatDoesNotSay) {
    EXPECT_TRUE(
        select_platform(index_of({descriptor(media_type::kOciManifest, '1')}), Platform::host()).ok());
    EXPECT_FALSE(select_platform(index_of({descriptor(media_type::kOciManifest, '1'),
                                           descriptor(media_type::kOciManifest, '2')}),
                                 Platform::host())
                     .ok());
}

TEST(Platform, ParsesAndRefuses) {
    EXPECT_EQ(Platform::parse("amd64")->to_string(), "linux/amd64");
    EXPECT_EQ(Platform::parse("linux/arm64/v8")->to_string(), "linux/arm64/v8");
    EXPECT_EQ(Platform::parse("armhf")->to_string(), "linux/arm/v7");
    for (const char* text : {"", "linux/", "windows/amd64", "linux/vax", "linux/arm/v7/x", "linux/arm/seven"})
        EXPECT_FALSE(Platform::parse(text).ok()) << text;
    EXPECT_TRUE(Platform::host().accepts(Platform{}));
    EXPECT_FALSE(Platform::host().accepts(Platform{"linux", "s390x", ""}));
}

const char kConfig[] = R"({
  "created": "2024-01-02T03:04:05Z", "author": "a", "architecture": "amd64", "os": "linux", "unknown": {"x": []},
  "config": {
    "User": "1000:10", "ExposedPorts": {"80/tcp": {}, "53/udp": {}, "9": {}}, "Env": ["PATH=/bin", "E="],
    "Entrypoint": ["/e"], "Cmd": null, "Volumes": {"/data": {}, "rel": {}}, "WorkingDir": "work",
    "Labels": {"l": "v"}, "StopSignal": "SIGQUIT", "Healthcheck": {"Test": ["NONE"]}
  },
  "rootfs": {"type": "layers", "diff_ids": [
    "sha256:1111111111111111111111111111111111111111111111111111111111111111",
    "sha256:2222222222222222222222222222222222222222222222222222222222222222"]}
})";

TEST(Config, GivesWhatAContainerStartsWith) {
    const ImageConfig config = parse_config(kConfig).value();
    EXPECT_EQ(config.platform.to_string(), "linux/amd64");
    EXPECT_EQ(config.created, "2024-01-02T03:04:05Z");
    EXPECT_EQ(config.user, "1000:10");
    EXPECT_EQ(config.exposed_ports, (std::vector<std::string>{"53/udp", "80/tcp", "9/tcp"}));
    EXPECT_EQ(config.env, (std::vector<std::string>{"PATH=/bin", "E="}));
    EXPECT_EQ(config.entrypoint, std::vector<std::string>{"/e"});
    EXPECT_TRUE(config.cmd.empty());
    EXPECT_EQ(config.volumes, (std::vector<std::string>{"/data", "/rel"}));
    EXPECT_EQ(config.working_dir, "/work");
    EXPECT_EQ(config.labels.at("l"), "v");
    EXPECT_EQ(config.stop_signal, "SIGQUIT");
    EXPECT_EQ(config.diff_ids.size(), 2u);
}

TEST(Config, RefusesHostileContent) {
    const auto parse = [](std::string_view process) {
        return parse_config(
            fmt::format(R"({{"config":{},"rootfs":{{"type":"layers","diff_ids":[]}}}})", process));
    };
    EXPECT_TRUE(parse("{}").ok());
    EXPECT_TRUE(parse(R"({"Entrypoint":"/one"})").ok());
    for (const char* process :
         {R"({"Env":["A=\u0000"]})", R"({"Env":[1]})", R"({"Cmd":["a\u0000b"]})", R"({"User":"\u0000"})",
          R"({"Volumes":{"../host":{}}})", R"({"Volumes":{"/a/../../etc":{}}})", R"({"Volumes":{"/..":{}}})",
          R"({"Volumes":{"":{}}})", R"({"Labels":{"a":1}})", R"({"Entrypoint":{}})", "[]", "1"})
        EXPECT_FALSE(parse(process).ok()) << process;
    EXPECT_FALSE(parse_config("{}").ok());
    EXPECT_FALSE(parse_config(R"({"rootfs":{"type":"layers+base","diff_ids":[]}})").ok());
    EXPECT_FALSE(parse_config(R"({"rootfs":{"type":"layers","diff_ids":["sha256:1"]}})").ok());
}

TEST(Image, PairsLayersWithDiffIds) {
    const Manifest manifest = std::get<Manifest>(parse_manifest(manifest_text(), "").value());
    const Descriptor self{std::string(media_type::kOciManifest), Digest::parse(hex_digest('f')).value(), 5};
    const Image image = assemble_image(self, manifest, parse_config(kConfig).value()).value();
    EXPECT_EQ(image.layers[1].diff_id.to_string(), hex_digest('2'));
    EXPECT_EQ(image.size(), 5u + 10 + 100 + 200);
    // printf '%s %s' sha256:11… sha256:22… | sha256sum
    EXPECT_EQ(image.chain_id().value().to_string(),
              "sha256:9932074217c35353d2e03a3f5a86549f7c67bfeb0ba53e23d69f4d4c8f7958f5");

    Manifest one_layer = manifest;
    one_layer.layers.pop_back();
    EXPECT_FALSE(assemble_image(self, one_layer, parse_config(kConfig).value()).ok());
}

TEST(Image, RefusesArtifactsAndUnknownLayers) {
    Manifest manifest = std::get<Manifest>(parse_manifest(manifest_text(), "").value());
    EXPECT_TRUE(check_image_types(manifest).ok());
    manifest.layers[0].media_type = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted";
    EXPECT_EQ(check_image_types(manifest).error().code, ErrorCode::kUnsupported);
    manifest.config.media_type = "application/vnd.cncf.helm.config.v1+json";
    EXPECT_EQ(check_image_types(manifest).error().code, ErrorCode::kImage);
}

}  // namespace
}  // namespace boxlite::image
