// A library of the host that is loaded when it is first needed: what brings many others with it would slow
// the start of every program down that rarely uses it.
#pragma once

#include <string>

#include "base/result.h"

namespace boxlite::base {

class SharedLibrary {
  public:
    // By soname, as the dynamic loader looks for it; stays loaded. kUnsupported: the host does not have it.
    static Result<SharedLibrary> load(const std::string& soname);

    template <typename Function>
    Result<void> bind(const char* name, Function*& function) const {
        function = reinterpret_cast<Function*>(TRY(address(name)));
        return {};
    }

  private:
    SharedLibrary(std::string soname, void* handle) : soname_(std::move(soname)), handle_(handle) {}
    Result<void*> address(const char* name) const;

    std::string soname_;
    void* handle_;
};

}  // namespace boxlite::base
