// Templates (see shim/template.h): one for each size of machine, kept in the home's cache. They hold nothing
// of any box. One is of use on the boot of the host on which it was made.
#pragma once

#include <optional>

#include "rpc/box.pb.h"
#include "runtime/capture.h"
#include "runtime/runtime_impl.h"

namespace boxlite::runtime {

// The machine that a new box of that specification can go on from, where there is one.
std::optional<CapturedMachine> find_template(const RuntimeImpl& runtime, const v1::BoxSpec& spec);
// Has it made in the background, for the next box. No error: without one, boxes boot.
void make_missing_template(const RuntimeImpl& runtime, const v1::BoxSpec& spec);

}  // namespace boxlite::runtime
