// SPDX-License-Identifier: MIT
// What is neither copied nor moved, said once for all classes that are so.
#pragma once

namespace swift {

class NonCopyable {
public:
	NonCopyable(const NonCopyable &) = delete;
	NonCopyable &operator=(const NonCopyable &) = delete;

protected:
	NonCopyable() = default;
	~NonCopyable() = default;
};

// Of the host, say, so that tests put made-up ones in its place.
class Interface : NonCopyable {
public:
	virtual ~Interface() = default;

protected:
	Interface() = default;
};

} // namespace swift
