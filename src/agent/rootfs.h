// The file systems that a container sees besides its own root: /dev, /sys, shared memory, and the files in
// /etc that belong to the machine rather than to the image.
#pragma once

#include <string>

#include "agent/messages.h"
#include "base/result.h"

namespace boxlite::agent {

// Makes `root`, a mounted directory, the "/" of the calling process's mount namespace, which must be the
// container's own, with everything mounted in it but what late_mounts.h is for. Mount points that the image
// lacks are made in it; files that are not asked for are left as the image has them.
// After an error the namespace is of no use. Expects umask 0.
Result<void> enter_rootfs(const std::string& root, const v1::ContainerSpec& spec);

// The text of the container's /etc/hosts.
std::string hosts_file(const v1::ContainerSpec& spec);
// The text of its /etc/resolv.conf.
std::string resolver_file(const v1::ContainerSpec& spec);

}  // namespace boxlite::agent
