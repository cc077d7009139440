/* SPDX-License-Identifier: MIT */
// How many worlds a statistical test looks at. Sanitizers look for other faults than the statistics' and take
// ten times as long: under them an eighth, and what is claimed of all is left to the plain build.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

inline constexpr unsigned worlds_of(unsigned all)
{
	return sanitized ? (all + 7) / 8 : all;
}
