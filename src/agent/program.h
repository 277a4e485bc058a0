// What a ProcessSpec asks for, checked and turned into a plan for the child.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/child.h"
#include "agent/messages.h"
#include "agent/root.h"

namespace boxlite::agent {

// Where `name` may lie, in the order in which it is to be tried: itself when it has a slash, else in the
// folders of PATH in `env`, or of the usual PATH when that is not set.
std::vector<std::string> program_candidates(std::string_view name, const std::vector<std::string>& env);

// A plan of kind kMember with everything but descriptors. Reads the container's /etc/passwd and /etc/group.
// kInvalidArgument for a bad user, capability, argument or working directory.
Result<std::unique_ptr<ChildPlan>> plan_program(const v1::ProcessSpec& spec, const Root& root,
                                                bool privileged);

}  // namespace boxlite::agent
