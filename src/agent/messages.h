// The messages of box.proto, in the small form. See rpc/lite.h.
#pragma once

#include "rpc/box.lite.h"

namespace boxlite::agent {

namespace v1 = lite;

}  // namespace boxlite::agent
