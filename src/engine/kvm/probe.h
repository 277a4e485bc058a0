// Whether this host's KVM runs a guest as a processor would.
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::engine::kvm {

// `code` is 32-bit code for address 0x100000 that switches its machine off once it has done what it tries
// (see probe_guest.S). kUnsupported, with the reason, when it does not come to that in about 50 ms.
Result<void> try_guest(base::ByteView code);

}  // namespace boxlite::engine::kvm
