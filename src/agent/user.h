// Who a process runs as, from a container's own /etc/passwd and /etc/group.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "base/result.h"

namespace boxlite::agent {

struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;  // supplementary, the primary one included
};

// `spec` is "", "name", "uid", "name:group" or "uid:gid" in any mix; "" is uid 0. As Docker does it:
//  - a name wins over a number; a number needs no entry, and its group is then 0;
//  - without a group, the primary one is the entry's, and every group that lists the user is added;
//  - with a group, it is the only one.
// `passwd` and `group` are the files' text; lines that make no sense are passed over.
// kInvalidArgument when a name is in no entry or a number is out of range.
Result<User> resolve_user(std::string_view spec, std::string_view passwd, std::string_view group);

}  // namespace boxlite::agent
