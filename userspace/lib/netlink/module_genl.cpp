// SPDX-License-Identifier: MIT
#include "module_genl.h"

#include <cerrno>

#include "uapi/tcp_swift.h"

namespace swift {

static_assert(error_no_module == ENOENT);

Result<GenlClient> open_module_genl()
{
	return GenlClient::open(TCP_SWIFT_GENL_NAME, TCP_SWIFT_GENL_VERSION);
}

Result<void> module_answered(const Result<NetlinkStatus> &answer)
{
	if (!answer && answer.error().code == ENOENT)
		return Error{"the module tcp_swift is not loaded", {}, {}, error_no_module};
	RETURN_IF_ERROR(answer);
	// The kernel's word for a family whose module is on its way out.
	if (answer->error == EPROTONOSUPPORT)
		return Error{"the module tcp_swift is being unloaded", {}, {}, error_no_module};
	if (answer->error == EOPNOTSUPP)
		return Error{"the module that is loaded cannot tell: it is older than swiftctl", {}, {}, EOPNOTSUPP};
	if (answer->error)
		return netlink_refusal("the module refused", *answer);
	if (answer->malformed)
		return Error{"the module's answer makes no sense: it and swiftctl are of different versions"};
	return {};
}

Error with_module_hint(System &system, Error error)
{
	if (error.code == error_no_module && !module_loaded(system))
		error.what += "; " + module_hint(system);
	return error;
}

} // namespace swift
