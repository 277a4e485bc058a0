// Which certificate authorities the programs of the container trust: those of the image, and some of ours.
#pragma once

#include "agent/messages.h"
#include "agent/root.h"

namespace boxlite::agent {

// A file that has them all: in an image with a store of its own, a link to that. The runtime's variables name
// it.
inline constexpr const char* kTrustFile = "/etc/boxlite/ca-certificates.crt";
// Ours alone, for programs that add them to what they bring along (NODE_EXTRA_CA_CERTS).
inline constexpr const char* kExtraTrustFile = "/etc/boxlite/ca.crt";

// Adds the authorities to the stores that Debian, Alpine, Fedora and openSUSE have, where
// update-ca-certificates and update-ca-trust keep them, and to our own files. Those that an earlier call
// added go. Without any, nothing is written that was not written before.
Result<void> set_trust(const Root& root, const v1::Trust& trust);

}  // namespace boxlite::agent
