// Writing seccomp policies with libseccomp.
#pragma once

#include <seccomp.h>

#include <initializer_list>

#include "jail/seccomp.h"

namespace boxlite::jail {

class SeccompBuilder {
  public:
    // Everything fails with EPERM, or does what `otherwise` says, until allowed.
    explicit SeccompBuilder(uint32_t otherwise = SCMP_ACT_ERRNO(EPERM));
    SeccompBuilder(const SeccompBuilder&) = delete;
    SeccompBuilder& operator=(const SeccompBuilder&) = delete;
    ~SeccompBuilder();

    void allow(std::initializer_list<const char*> calls);
    // Only when all comparisons hold; calling it again for the same call adds an alternative.
    void allow_if(const char* call, std::initializer_list<scmp_arg_cmp> conditions);
    // Only when argument `index` is one of `values`.
    void allow_values(const char* call, unsigned index, std::initializer_list<uint64_t> values);
    void fail(const char* call, int errnum);

    // The first error of any call before, or the program.
    Result<SeccompProgram> build();

  private:
    void add(uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> conditions);
    scmp_filter_ctx context_;
    int error_ = 0;  // negative errno
    const char* failed_call_ = "";
};

}  // namespace boxlite::jail
