// SPDX-License-Identifier: MIT
// A file descriptor that closes itself. Nothing else.
#pragma once

#include <unistd.h>

#include <utility>

namespace swift {

class Fd {
public:
	explicit Fd(int fd = -1) : fd_(fd) {}
	Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	Fd &operator=(Fd &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	Fd(const Fd &) = delete;
	Fd &operator=(const Fd &) = delete;
	~Fd()
	{
		if (fd_ >= 0)
			close(fd_);
	}

	explicit operator bool() const { return fd_ >= 0; }
	[[nodiscard]] int get() const { return fd_; }
	// From now on somebody else closes it.
	int release() { return std::exchange(fd_, -1); }

private:
	int fd_;
};

} // namespace swift
