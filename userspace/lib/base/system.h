// SPDX-License-Identifier: MIT
// The host, as far as swiftctl touches it: files, sysctls, commands, NIC ioctls, sockets.
// An interface, so that tests put a made-up host in its place. It decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow.h"
#include "genl.h"
#include "result.h"
#include "stamping.h"

namespace swift {

// Whoever changes the host holds it meanwhile.
inline constexpr const char *changes_lock_path = "/run/tcp_swift/lock";

struct CommandResult {
	int status = 0; // exit status; 128 + signal if killed
	std::string out;
	std::string err;
};

struct Coalescing {
	std::uint32_t rx_usecs = 0;
	bool adaptive_rx = false;
};

class System {
public:
	System() = default;
	System(const System &) = delete;
	System &operator=(const System &) = delete;
	virtual ~System() = default;

	// Paths are absolute, as on the real host.
	[[nodiscard]] virtual bool exists(const std::string &path) const = 0;
	virtual Result<std::string> read_file(const std::string &path) const = 0;
	virtual Result<std::vector<std::string>> list_dir(const std::string &path) const = 0;
	// One write() into a file that is there, as /proc/sys wants it.
	virtual Result<void> write_file(const std::string &path, const std::string &content) = 0;
	// All or nothing, on disk when it returns; makes the directory.
	virtual Result<void> replace_file(const std::string &path, const std::string &content,
					  unsigned mode) = 0;
	virtual Result<void> remove_file(const std::string &path) = 0;
	// argv[0] is looked up in the system's own directories; no shell.
	virtual Result<CommandResult> run(const std::vector<std::string> &argv) = 0;
	// Held as long as the object lives; an Error if another process holds it.
	virtual Result<std::shared_ptr<void>> lock(const std::string &path) = 0;

	virtual Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) = 0;
	virtual Result<Coalescing> coalescing(const std::string &dev) = 0;
	virtual Result<NicTimestamps> timestamps(const std::string &dev) = 0;
	// What the driver has made of @wanted, which may be more.
	virtual Result<Stamping> set_stamping(const std::string &dev, const Stamping &wanted) = 0;
	// The lines of all NIC clocks that the module has.
	virtual Result<std::vector<NicClock>> nic_clocks() = 0;
	// The smallest RTT of a few TCP handshakes.
	virtual Result<std::uint64_t> handshake_rtt_ns(const std::string &host,
						       std::uint16_t port) = 0;

	[[nodiscard]] virtual bool is_root() const = 0;
};

// The host that we run on. With a @root, files come from below it (tests, images), and
// what only the live kernel can tell (NICs, sockets) is an Error.
std::unique_ptr<System> real_system(std::string root = {});

// "net.ipv4.tcp_sack": its value, without the newline.
Result<std::string> read_sysctl(const System &system, std::string_view name);
Result<void> write_sysctl(System &system, std::string_view name, const std::string &value);
[[nodiscard]] bool has_sysctl(const System &system, std::string_view name);

[[nodiscard]] bool module_loaded(const System &system);
// Who holds the flock(2) of a file, as /proc/locks tells; none: nobody that can be seen.
[[nodiscard]] std::optional<std::uint32_t> flock_holder(std::string_view locks, unsigned major, unsigned minor,
							std::uint64_t inode);
// Who is behind a netlink port, as far as can be told.
[[nodiscard]] std::string netlink_port_text(const System &system, std::uint32_t port);
// How to get the module, in one line.
[[nodiscard]] std::string module_hint(System &system);

} // namespace swift
