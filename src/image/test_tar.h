// Tar archives for tests, entry by entry and without any check, so that hostile ones can be made too
// (POSIX.1-1988 ustar).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxlite::image::testing {

class TarBuilder {
  public:
    TarBuilder& file(std::string_view name, std::string_view content) { return add(name, '0', "", content); }
    TarBuilder& hardlink(std::string_view name, std::string_view target) {
        return add(name, '1', target, "");
    }
    TarBuilder& symlink(std::string_view name, std::string_view target) { return add(name, '2', target, ""); }
    TarBuilder& directory(std::string_view name) { return add(name, '5', "", ""); }
    TarBuilder& add(std::string_view name, char type, std::string_view link, std::string_view content);
    std::string finish() const { return archive_ + std::string(1024, '\0'); }

  private:
    std::string archive_;
};

// Writes a file; fails the running test on error. Returns its path.
std::string write_file(const std::string& path, std::string_view content);

// Runs a program that must succeed; returns its standard output.
std::string run_or_fail(const std::vector<std::string>& argv, std::string_view input = {});

// Makes an image with umoci in the OCI layout `layout` under `tag`: one gzip layer per given tar archive.
void make_with_umoci(const std::string& layout, const std::string& tag,
                     const std::vector<std::string>& layer_tars);

}  // namespace boxlite::image::testing
