// Which engine carries a box: what the caller asked for, as far as this host can really boot it.
#pragma once

#include <string>

#include "boxlite/options.h"
#include "runtime/runtime_impl.h"

namespace boxlite::runtime {

struct EngineChoice {
    std::string engine;     // "kvm", "uml"
    std::string isolation;  // "hardware", "software"
    std::string reason;     // why kAuto took no stronger one
};

// The host's KVM is tried by a small guest once per boot of the host and home, and told about through
// RuntimeImpl::notice then when it is of no use. kUnsupportedEngine when the host has not what was asked for;
// kInvalidArgument when engine and isolation contradict each other.
Result<EngineChoice> choose_engine(const RuntimeImpl& runtime, Engine engine, Isolation isolation);

}  // namespace boxlite::runtime
