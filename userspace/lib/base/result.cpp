// SPDX-License-Identifier: MIT
// The one way an Error becomes a sentence.
#include "result.h"

#include <cstring>

namespace swift {

std::string Error::text() const
{
	std::string s = what;

	if (!value.empty())
		s += ": '" + value + "'";
	if (!allowed.empty())
		s += " (allowed: " + allowed + ")";
	return s;
}

Error errno_error(std::string what, int code)
{
	return Error{what + ": " + std::strerror(code), {}, {}, code};
}

} // namespace swift
