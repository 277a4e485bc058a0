#include "runtime/assets.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "runtime/bundle.h"

namespace boxlite::runtime {

namespace {

Result<std::string> executable_folder() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return Error::from_errno(ErrorCode::kInternal, "find the running executable", error.value());
    return path.parent_path().string();
}

}  // namespace

Result<std::string> Assets::find(std::string_view name) const {
    if (const char* dir = std::getenv("BOXLITE_LIBEXEC_DIR"); dir && *dir) {
        std::string path = fmt::format("{}/{}", dir, name);
        if (base::path_exists(path)) return path;
        return base::make_error(ErrorCode::kConfig, "BOXLITE_LIBEXEC_DIR is '{}', but there is no '{}' in it",
                                dir, name);
    }
    const std::string folder = TRY(executable_folder()) + "/../lib/boxlite";
    std::string path = fmt::format("{}/{}", folder, name);
    if (base::path_exists(path)) return std::filesystem::path(path).lexically_normal().string();
    if (auto unpacked = unpack(name); unpacked.ok() || unpacked.error().code != ErrorCode::kNotFound)
        return unpacked;
    return base::make_error(
        ErrorCode::kConfig,
        "'{}' is neither in '{}' nor inside this executable; install BoxLite completely or set "
        "BOXLITE_LIBEXEC_DIR to the folder that has it",
        name, std::filesystem::path(folder).lexically_normal().string());
}

Result<std::string> Assets::unpack(std::string_view name) const {
    for (const BundledFile& file : bundled_files()) {
        if (file.name != name) continue;
        const std::string folder = fmt::format("{}/{}", unpack_into_, file.sha256);
        std::string path = fmt::format("{}/{}", folder, name);
        // Root's guest kernels run as users of their own, which must be able to execute the file.
        const mode_t mode = file.executable ? 0755 : 0644;
        struct stat st;
        // Written atomically, so a file of the right size is the whole file.
        if (::stat(path.c_str(), &st) == 0 && static_cast<uint64_t>(st.st_size) == file.content.size() &&
            (st.st_mode & 0777) == mode)
            return path;
        TRY(base::make_directories(folder, 0700));
        TRY_CONTEXT(base::write_file_atomically(path, base::as_bytes(file.content), mode),
                    fmt::format("unpack '{}'", name));
        return path;
    }
    return base::make_error(ErrorCode::kNotFound, "'{}' is not bundled", name);
}

}  // namespace boxlite::runtime
