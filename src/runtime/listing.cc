#include "runtime/listing.h"

#include <dirent.h>

namespace boxlite::runtime {

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    DIR* dir = ::opendir(folder.c_str());
    if (!dir) return names;
    while (const dirent* entry = ::readdir(dir))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    ::closedir(dir);
    return names;
}

}  // namespace boxlite::runtime
