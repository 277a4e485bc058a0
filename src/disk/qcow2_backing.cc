#include "disk/qcow2_backing.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace boxlite::disk::qcow2 {

namespace {

using base::make_error;
using Path = std::filesystem::path;

// The part of `path` below `dir`; empty when it is not below.
std::string below(const std::string& path, const std::string& dir) {
    const std::string prefix = dir == "/" ? dir : dir + "/";
    return path.starts_with(prefix) ? path.substr(prefix.size()) : std::string();
}

// Opens dir/rest without following any link in `rest`.
Result<std::unique_ptr<BlockIo>> open_below(const std::string& dir, const std::string& rest) {
    base::Fd at = TRY(base::open_file(dir, O_PATH | O_DIRECTORY));
    size_t begin = 0;
    for (size_t slash; (slash = rest.find('/', begin)) != std::string::npos; begin = slash + 1) {
        const std::string name = rest.substr(begin, slash - begin);
        base::Fd next(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next.valid()) return base::errno_error(ErrorCode::kStorage, "open '{}' in '{}'", name, dir);
        at = std::move(next);
    }
    return open_file_io(at.get(), rest.substr(begin), true);
}

}  // namespace

std::string absolute_path(const std::string& path) {
    std::error_code failed;
    const Path absolute = std::filesystem::absolute(path, failed);
    std::string normal = (failed ? Path(path) : absolute).lexically_normal().string();
    while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
    return normal;
}

Result<BackingFile> open_backing(const Backing& backing, const std::string& folder,
                                 const std::vector<std::string>& dirs,
                                 const std::vector<std::string>& above) {
    TRY(check_backing_path(backing.path));
    const std::string path = absolute_path((Path(folder) / backing.path).string());
    if (std::ranges::find(above, path) != above.end())
        return make_error(ErrorCode::kStorage, "backing file '{}' is its own ancestor", path);
    if (above.size() > kMaxBackingDepth)
        return make_error(ErrorCode::kStorage, "'{}' has more than {} backing files; flatten it",
                          above.front(), kMaxBackingDepth);
    for (const std::string& dir : dirs) {
        const std::string rest = below(path, absolute_path(dir));
        if (rest.empty()) continue;
        auto io = TRY_CONTEXT(open_below(dir, rest), fmt::format("backing file '{}'", path));
        return BackingFile{path, Path(path).parent_path().string(), std::move(io)};
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "backing file '{}' is refused: it is not in a folder that may hold one", path);
}

}  // namespace boxlite::disk::qcow2
