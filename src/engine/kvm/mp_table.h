// The table that tells the kernel of its processors and its interrupt controller
// (Intel MultiProcessor Specification 1.4, chapter 4).
#pragma once

#include "base/bytes.h"

namespace boxlite::engine::kvm {

// For a machine of `cpus` processors, to be put at `address`: the floating pointer, then the configuration
// table. Local APIC ids are 0 to cpus - 1; the I/O APIC's pins are edge triggered and active high, and pin n
// is interrupt n.
base::Bytes make_mp_table(uint64_t address, uint32_t cpus);

}  // namespace boxlite::engine::kvm
