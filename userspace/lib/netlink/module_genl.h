// SPDX-License-Identifier: MIT
// The module's own family of generic netlink: how it is opened, and what its answers say where it has none.
#pragma once

#include "genl.h"
#include "result.h"
#include "system.h"

namespace swift {

// An Error's code: the module is not loaded.
inline constexpr int error_no_module = 2; // ENOENT
// With module_hint(), if that is what @error is of.
[[nodiscard]] Error with_module_hint(System &system, Error error);

Result<GenlClient> open_module_genl();
// An Error if there is no answer, or a refusal, or none that can be read.
Result<void> module_answered(const Result<NetlinkStatus> &answer);

} // namespace swift
