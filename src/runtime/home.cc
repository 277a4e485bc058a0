#include "runtime/home.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace boxlite::runtime {

namespace {

Result<std::string> user_home() {
    const char* home = std::getenv("HOME");
    if (home && *home == '/') return std::string(home);
    passwd entry{};
    passwd* found = nullptr;
    char buffer[4096];
    if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
        *found->pw_dir == '/')
        return std::string(found->pw_dir);
    return base::make_error(ErrorCode::kConfig,
                            "this user has no home directory; set BOXLITE_HOME or --home");
}

Result<std::string> absolute(const std::string& path) {
    std::error_code error;
    std::string result = std::filesystem::absolute(path, error).lexically_normal().string();
    if (error) return Error::from_errno(ErrorCode::kConfig, fmt::format("resolve '{}'", path), error.value());
    while (result.size() > 1 && result.back() == '/') result.pop_back();
    return result;
}

Result<std::string> choose(const std::string& path) {
    if (!path.empty()) return absolute(path);
    const char* variable = std::getenv("BOXLITE_HOME");
    if (variable && *variable) return absolute(variable);
    return TRY(user_home()) + "/.boxlite";
}

}  // namespace

Result<Home> Home::open(const std::string& path) {
    Home home(TRY(choose(path)));
    if (::access(home.boxes().c_str(), W_OK) != 0 || !base::path_exists(home.layers())) {
        TRY_CONTEXT(base::make_directories(home.path(), 0700), "home directory (change it with --home)");
        for (const std::string& folder :
             {home.images(), home.layers(), home.kernels(), home.cache(), home.boxes(), home.logs()})
            TRY_CONTEXT(base::make_directories(folder, 0700), "home directory (change it with --home)");
    }
    if (::access(home.boxes().c_str(), W_OK | X_OK) != 0)
        return base::errno_error(ErrorCode::kStorage, "write to home directory '{}'", home.path());
    return home;
}

}  // namespace boxlite::runtime
