// Where the files that a box needs besides its image are. Looked for, in this order:
//   1. $BOXLITE_LIBEXEC_DIR, when set: there or nowhere
//   2. ../lib/boxlite/ beside the running executable's folder (an installation, a build tree)
//   3. the bundle inside the executable, unpacked once into {home}/kernels/<sha256>/
// Thread safe.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/home.h"

namespace boxlite::runtime {

class Assets {
  public:
    explicit Assets(const Home& home) : unpack_into_(home.kernels()) {}

    Result<std::string> supervisor() const { return find("boxlite-shim"); }
    Result<std::string> network_process() const { return find("boxlite-netd"); }
    Result<std::string> interceptor() const { return find("boxlite-tlsd"); }
    Result<std::string> uml_kernel() const { return find("linux-uml"); }
    Result<std::string> kvm_kernel() const { return find("linux-x86_64"); }
    Result<std::string> initramfs() const { return find("initramfs.cpio"); }
    Result<std::string> base_image() const { return find("base.tar"); }

  private:
    Result<std::string> find(std::string_view name) const;
    Result<std::string> unpack(std::string_view name) const;
    std::string unpack_into_;
};

}  // namespace boxlite::runtime
