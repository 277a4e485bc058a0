#include "image/test_tar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/process.h"

namespace boxlite::image::testing {

TarBuilder& TarBuilder::add(std::string_view name, char type, std::string_view link,
                            std::string_view content) {
    std::string header(512, '\0');
    const auto put = [&](size_t offset, std::string_view text) { header.replace(offset, text.size(), text); };
    put(0, name.substr(0, 100));
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, fmt::format("{:011o}", content.size()));
    put(136, "00000000000");
    put(148, "        ");
    header[156] = type;
    put(157, link.substr(0, 100));
    put(257, std::string_view("ustar\00000", 8));
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum));
    header[154] = '\0';
    archive_ += header;
    archive_ += content;
    archive_.append((512 - content.size() % 512) % 512, '\0');
    return *this;
}

std::string write_file(const std::string& path, std::string_view content) {
    const auto written = base::write_file_atomically(path, base::as_bytes(content));
    EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
    return path;
}

std::string run_or_fail(const std::vector<std::string>& argv, std::string_view input) {
    auto run = base::run_command(argv, input);
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
    if (!run.ok()) return {};
    EXPECT_EQ(run->status.shell_code(), 0) << fmt::format("{}: {}", fmt::join(argv, " "), run->err);
    return run->out;
}

void make_with_umoci(const std::string& layout, const std::string& tag,
                     const std::vector<std::string>& layer_tars) {
    if (!base::path_exists(layout)) run_or_fail({"umoci", "init", "--layout", layout});
    const std::string image = layout + ":" + tag;
    run_or_fail({"umoci", "new", "--image", image});
    for (const std::string& tar : layer_tars) {
        const base::TempDir dir = base::TempDir::make().value();
        run_or_fail(
            {"umoci", "raw", "add-layer", "--image", image, write_file(dir.path() + "/layer.tar", tar)});
    }
    run_or_fail({"umoci", "config", "--image", image, "--config.env", "GREETING=hello", "--config.cmd",
                 "/bin/app", "--config.user", "1000:1000", "--config.workingdir", "/srv"});
}

}  // namespace boxlite::image::testing
