#include "base/shared_library.h"

#include <dlfcn.h>

namespace boxlite::base {

Result<SharedLibrary> SharedLibrary::load(const std::string& soname) {
    void* handle = ::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return make_error(ErrorCode::kUnsupported, "{}: install the package that has the library {}",
                          ::dlerror(), soname);
    return SharedLibrary(soname, handle);
}

Result<void*> SharedLibrary::address(const char* name) const {
    if (void* address = ::dlsym(handle_, name)) return address;
    return make_error(ErrorCode::kUnsupported, "the host's library {} is too old: it has no {}", soname_,
                      name);
}

}  // namespace boxlite::base
