#include "jail/seccomp_builder.h"

#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace boxlite::jail {

SeccompBuilder::SeccompBuilder(uint32_t otherwise) : context_(::seccomp_init(otherwise)) {
    if (!context_) {
        error_ = -ENOMEM;
        return;
    }
    // A 32-bit system call of a guest program must reach the guest kernel too.
    error_ = ::seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    // A binary tree instead of a list: guest system calls pass through it.
    if (error_ == 0) error_ = ::seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

SeccompBuilder::~SeccompBuilder() {
    if (context_) ::seccomp_release(context_);
}

void SeccompBuilder::add(uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> conditions) {
    if (error_ != 0) return;
    failed_call_ = call;
    const int number = ::seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR)
        error_ = -ENOSYS;
    else
        error_ = ::seccomp_rule_add_array(context_, action, number, static_cast<unsigned>(conditions.size()),
                                          conditions.begin());
}

void SeccompBuilder::allow(std::initializer_list<const char*> calls) {
    for (const char* call : calls) add(SCMP_ACT_ALLOW, call, {});
}

void SeccompBuilder::allow_if(const char* call, std::initializer_list<scmp_arg_cmp> conditions) {
    add(SCMP_ACT_ALLOW, call, conditions);
}

void SeccompBuilder::allow_values(const char* call, unsigned index, std::initializer_list<uint64_t> values) {
    // System calls take these arguments as 32 bits, so the upper half must not decide.
    for (const uint64_t value : values)
        add(SCMP_ACT_ALLOW, call, {SCMP_CMP(index, SCMP_CMP_MASKED_EQ, 0xffffffff, value)});
}

void SeccompBuilder::fail(const char* call, int errnum) {
    add(SCMP_ACT_ERRNO(static_cast<uint32_t>(errnum)), call, {});
}

Result<SeccompProgram> SeccompBuilder::build() {
    if (error_ != 0)
        return Error::from_errno(ErrorCode::kInternal, fmt::format("allow system call '{}'", failed_call_),
                                 -error_);
    const base::Fd file = TRY(base::make_memfd("seccomp", 0));
    if (const int result = ::seccomp_export_bpf(context_, file.get()); result < 0)
        return Error::from_errno(ErrorCode::kInternal, "compile a seccomp policy", -result);
    struct stat st;
    if (::fstat(file.get(), &st) < 0) return base::errno_error(ErrorCode::kInternal, "read a seccomp policy");
    SeccompProgram program(static_cast<size_t>(st.st_size) / sizeof(sock_filter));
    TRY(base::pread_exact(
        file.get(), {reinterpret_cast<uint8_t*>(program.data()), program.size() * sizeof(sock_filter)}, 0));
    return program;
}

static long install(const SeccompProgram& program, unsigned flags) {
    const sock_fprog code{static_cast<unsigned short>(program.size()),
                          const_cast<sock_filter*>(program.data())};
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &code);
}

Result<void> apply_seccomp_to_thread(const SeccompProgram& program) {
    if (install(program, 0) < 0)
        return base::errno_error(ErrorCode::kUnsupported, "install a seccomp filter for a thread");
    return {};
}

Result<void> apply_seccomp(const SeccompProgram& program) {
    const long result = install(program, SECCOMP_FILTER_FLAG_TSYNC);
    if (result < 0) return base::errno_error(ErrorCode::kUnsupported, "install a seccomp filter");
    if (result > 0)
        return base::make_error(ErrorCode::kUnsupported, "thread {} has another seccomp filter of its own",
                                result);
    return {};
}

}  // namespace boxlite::jail
