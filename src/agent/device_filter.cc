#include "agent/device_filter.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace boxlite::agent {

namespace {

// The instructions of a BPF_PROG_TYPE_CGROUP_DEVICE program, as in the kernel's own filter.h.
constexpr bpf_insn load(uint8_t to, uint8_t from, int16_t offset) {
    return {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = to, .src_reg = from, .off = offset, .imm = 0};
}
constexpr bpf_insn alu(uint8_t operation, uint8_t reg, int32_t value) {
    return {.code = static_cast<uint8_t>(BPF_ALU64 | operation | BPF_K),
            .dst_reg = reg,
            .src_reg = 0,
            .off = 0,
            .imm = value};
}
constexpr bpf_insn move(uint8_t to, uint8_t from) {
    return {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = to, .src_reg = from, .off = 0, .imm = 0};
}
// The instruction at place `here` goes on at place `there` when the register compares so.
constexpr bpf_insn jump_if(uint8_t comparison, uint8_t reg, int32_t value, int here, int there) {
    return {.code = static_cast<uint8_t>(BPF_JMP | comparison | BPF_K),
            .dst_reg = reg,
            .src_reg = 0,
            .off = static_cast<int16_t>(there - here - 1),
            .imm = value};
}
constexpr int16_t offset(size_t field) {
    return static_cast<int16_t>(field);
}

constexpr int32_t kTypeMask = 0xffff;
constexpr int32_t kUse = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
constexpr int32_t kMemory = 1, kTty = 5, kPts = 136;  // majors
// Minors of major 1 as a set: null, zero, full, random, urandom. Of major 5: tty, console, ptmx.
constexpr int32_t kMemoryMinors = 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9;
constexpr int32_t kTtyMinors = 1 << 0 | 1 << 1 | 1 << 2;

// Places in the program.
constexpr int kCheckMinor = 16, kDeny = 18, kAllow = 19;

// r0 is the verdict (1: allowed). r2 access and type, r3 major, r4 minor, r5 scratch.
constexpr bpf_insn kProgram[] = {
    load(BPF_REG_2, BPF_REG_1, offset(offsetof(bpf_cgroup_dev_ctx, access_type))),
    load(BPF_REG_3, BPF_REG_1, offset(offsetof(bpf_cgroup_dev_ctx, major))),
    load(BPF_REG_4, BPF_REG_1, offset(offsetof(bpf_cgroup_dev_ctx, minor))),
    alu(BPF_MOV, BPF_REG_0, 1),
    move(BPF_REG_5, BPF_REG_2),
    alu(BPF_RSH, BPF_REG_5, 16),
    alu(BPF_AND, BPF_REG_5, kUse),
    jump_if(BPF_JEQ, BPF_REG_5, 0, 7, kAllow),  // only a node is made
    alu(BPF_AND, BPF_REG_2, kTypeMask),
    jump_if(BPF_JNE, BPF_REG_2, BPF_DEVCG_DEV_CHAR, 9, kDeny),
    jump_if(BPF_JEQ, BPF_REG_3, kPts, 10, kAllow),
    jump_if(BPF_JGT, BPF_REG_4, 31, 11, kDeny),
    alu(BPF_MOV, BPF_REG_5, kMemoryMinors),
    jump_if(BPF_JEQ, BPF_REG_3, kMemory, 13, kCheckMinor),
    alu(BPF_MOV, BPF_REG_5, kTtyMinors),
    jump_if(BPF_JNE, BPF_REG_3, kTty, 15, kDeny),
    {.code = BPF_ALU64 | BPF_RSH | BPF_X, .dst_reg = BPF_REG_5, .src_reg = BPF_REG_4, .off = 0, .imm = 0},
    jump_if(BPF_JSET, BPF_REG_5, 1, 17, kAllow),
    alu(BPF_MOV, BPF_REG_0, 0),
    {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
};
static_assert(std::size(kProgram) == kAllow + 1);

long bpf(bpf_cmd command, bpf_attr& attributes) {
    return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

}  // namespace

Result<void> filter_devices(const base::Fd& cgroup) {
    bpf_attr program{};
    program.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    program.insns = reinterpret_cast<uint64_t>(kProgram);
    program.insn_cnt = std::size(kProgram);
    program.license = reinterpret_cast<uint64_t>("Apache-2.0");
    const base::Fd fd(static_cast<int>(bpf(BPF_PROG_LOAD, program)));
    if (!fd.valid()) return base::errno_error(ErrorCode::kInternal, "load the container's device filter");
    bpf_attr attachment{};
    attachment.target_fd = static_cast<uint32_t>(cgroup.get());
    attachment.attach_bpf_fd = static_cast<uint32_t>(fd.get());
    attachment.attach_type = BPF_CGROUP_DEVICE;
    attachment.attach_flags = BPF_F_ALLOW_MULTI;
    if (bpf(BPF_PROG_ATTACH, attachment) < 0)
        return base::errno_error(ErrorCode::kInternal, "apply the container's device filter");
    return {};
}

}  // namespace boxlite::agent
