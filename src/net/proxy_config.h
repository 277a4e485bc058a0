// The host's proxies on their way into netd.
#pragma once

#include "base/fd.h"
#include "net/proxy.h"

namespace boxlite::net {

// `file` holds a ProxyConfig.
Result<Proxies> read_proxies(base::Fd file);

}  // namespace boxlite::net
