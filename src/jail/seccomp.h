// Allow-lists of system calls, one per role. What is not listed fails with EPERM, but for threads: it does
// not kill, because the processes of a uml guest inherit the kernel's list, and there every call of a guest
// program must stay a trap that the guest kernel answers (seccomp(2): of several filters the result of
// highest precedence counts, and a trap has precedence over an error but not over a kill).
#pragma once

#include "jail/jail.h"

namespace boxlite::jail {

// The uml kernel and its user processes. No file, no socket but pairs, no signal to itself with SIGABRT
// (as process 1 it would wait for ever to be ended by it; so its abort() ends with exit code 127).
Result<SeccompProgram> uml_kernel_policy();

// A box's supervisor, after its other processes were started: files, unix sockets, threads, /dev/kvm.
// No other sockets, no new processes, no other program, signals only by pidfd, but for SIGSTOP and SIGCONT to
// the process group `stoppable_group` (0: none). For the calling process.
Result<SeccompProgram> shim_policy(pid_t stoppable_group);

// Its threads that guests talk to, within that policy and what Landlock leaves: none makes a thread or a
// connection. What is not listed ends the process (see violation.h): one that tries is not ours any more.
// vCPUs enter the guest and pass on what it writes to devices; device threads move data between guest memory
// and the files and sockets that they have.
Result<SeccompProgram> vcpu_thread_policy();
Result<SeccompProgram> device_thread_policy();

// A box's network process: sockets of the internet, and nothing of the host's files or processes.
Result<SeccompProgram> netd_policy();
// The process beside it that looks into TLS connections: it accepts those who bring secrets, and makes none.
Result<SeccompProgram> tlsd_policy();

// Installs a program for every thread of this process.
Result<void> apply_seccomp(const SeccompProgram& program);
// For the calling thread and those that it starts.
Result<void> apply_seccomp_to_thread(const SeccompProgram& program);

}  // namespace boxlite::jail
