// Templates: machines that have booted as far as their agent waits to be told which box they become. A new
// box goes on from one instead of booting.
#pragma once

#include "base/result.h"
#include "rpc/box.pb.h"

namespace boxlite::shim {

// Makes one, unless it exists or is being made, and removes those that are of no use any more. In a process
// of its own: it ends up confined to the templates' folder. A template that cannot be made is written down as
// failed, so that it is not tried again.
Result<void> make_template(const v1::TemplateSpec& spec);

}  // namespace boxlite::shim
