// System calls without libc, for code that shares its memory with the agent while it runs in another
// process: no errno, no locks, no allocation. A negative result is -errno.
#pragma once

#include <linux/sched.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if !defined(__x86_64__)
#error "raw.h knows the calling convention of x86_64 only"
#endif

namespace boxlite::agent::raw {

template <typename T>
long word(T value) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<long>(value);
    else
        return static_cast<long>(value);
}
inline long word(std::nullptr_t) {
    return 0;
}

inline long syscall6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

// Up to six arguments, integers or pointers.
template <typename... Args>
long call(long number, Args... args) {
    static_assert(sizeof...(Args) <= 6);
    const long words[6] = {word(args)...};
    return syscall6(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// clone3(2) whose child calls `entry(argument)` on the stack given in `args` (none: on a copy of the
// caller's) and must never return from it. The parent gets the child's pid.
inline long clone3(const clone_args* args, void (*entry)(void*), void* argument) {
    long result;
    register void (*child_entry)(void*) asm("r12") = entry;
    register void* child_argument asm("r13") = argument;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "xor %%ebp, %%ebp\n\t"
        "and $-16, %%rsp\n\t"
        "mov %%r13, %%rdi\n\t"
        "call *%%r12\n\t"
        "ud2\n"
        "1:"
        : "=a"(result)
        : "a"(SYS_clone3), "D"(args), "S"(sizeof(clone_args)), "r"(child_entry), "r"(child_argument)
        : "rcx", "r11", "memory");
    return result;
}

}  // namespace boxlite::agent::raw
