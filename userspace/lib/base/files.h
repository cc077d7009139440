// SPDX-License-Identifier: MIT
// Files of the host, and locks on them. An interface, so that tests put made-up ones in their
// place. It decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interface.h"
#include "result.h"

namespace swift {

// Whoever changes the host holds it meanwhile.
inline constexpr const char *changes_lock_path = "/run/tcp_swift/lock";

// Who remembers what it has changed, and where. What root's tools obey lies where root alone writes. The
// service is confined, and writes only in its runtime folder, where locks that both want are as well.
enum class Keeper { tools, service };
[[nodiscard]] constexpr const char *state_dir(Keeper k)
{
	return k == Keeper::tools ? "/var/lib/tcp_swift" : "/run/tcp_swift";
}

class Files : public Interface {
public:
	// Paths are absolute, as on the real host.
	[[nodiscard]] virtual bool exists(const std::string &path) const = 0;
	virtual Result<std::string> read_file(const std::string &path) const = 0;
	// The same, of what a confined program may have put there: a plain file of no great length.
	virtual Result<std::string> read_record(const std::string &path) const { return read_file(path); }
	virtual Result<std::vector<std::string>> list_dir(const std::string &path) const = 0;
	// One write() into a file that is there, as /proc/sys wants it.
	virtual Result<void> write_file(const std::string &path, const std::string &content) = 0;
	// All or nothing, on disk when it returns; makes the directory.
	virtual Result<void> replace_file(const std::string &path, const std::string &content,
					  unsigned mode) = 0;
	virtual Result<void> remove_file(const std::string &path) = 0;
	// Held as long as the object lives; an Error if another process holds it.
	virtual Result<std::shared_ptr<void>> lock(const std::string &path) = 0;
};

// "net.ipv4.tcp_sack": its value, without the newline.
Result<std::string> read_sysctl(const Files &files, std::string_view name);
Result<void> write_sysctl(Files &files, std::string_view name, const std::string &value);
[[nodiscard]] bool has_sysctl(const Files &files, std::string_view name);

[[nodiscard]] bool module_loaded(const Files &files);
// Of this boot; "" if it is not told.
[[nodiscard]] std::string boot_id(const Files &files);
// Who holds the flock(2) of a file, as /proc/locks tells; none: nobody that can be seen.
[[nodiscard]] std::optional<std::uint32_t> flock_holder(std::string_view locks, unsigned major, unsigned minor,
							std::uint64_t inode);

} // namespace swift
