// SPDX-License-Identifier: MIT
// The things of a host that `enable` changes and `disable` puts back: how each is read,
// written, compared and remembered. In which order, and what for, is enable.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "system.h"

namespace swift {

inline constexpr const char *allowed_cc_sysctl = "net.ipv4.tcp_allowed_congestion_control";
inline constexpr const char *default_cc_sysctl = "net.ipv4.tcp_congestion_control";
inline constexpr const char *default_qdisc_sysctl = "net.core.default_qdisc";
// Of --persist.
inline constexpr const char *modules_file = "/etc/modules-load.d/tcp_swift.conf";
inline constexpr const char *sysctl_file = "/etc/sysctl.d/90-tcp_swift.conf";

enum class Kind { module, sysctl, qdisc, file };

// One thing: (module, "tcp_swift"), (sysctl, "net.core.default_qdisc"), (qdisc, "eth0"),
// (file, "/etc/...").
struct Item {
	Kind kind;
	std::string key;

	bool operator==(const Item &) const = default;
};

// What a thing can be is a string: "loaded" or "unloaded"; the sysctl's value; "fq" or
// "mq(fq)"; the file's content. No value: the thing is not there.
using Value = std::optional<std::string>;

// What was there before our first change, and everything that we have written since.
struct Change {
	Item item;
	Value before;
	std::vector<std::string> written;
	// Of a qdisc: all that tc tells of what we put there, since another one may have its name; "": not known.
	std::string left_as = {};
};

[[nodiscard]] std::string_view kind_name(Kind k);
// "net.core.default_qdisc", "qdisc of eth0"
[[nodiscard]] std::string item_name(const Item &item);

Result<Value> current(System &system, const Item &item);
[[nodiscard]] bool same(const Item &item, const Value &a, const Value &b);

// How to make an item have a value, in the commands of a shell, one per line. For people
// and for --dry-run; apply() takes the direct way to the same end.
[[nodiscard]] std::vector<std::string> commands(const Item &item, const Value &value,
						const std::string &module_file);
// Makes it so, and reads back whether it is.
Result<void> apply(System &system, const Item &item, const Value &value,
		   const std::string &module_file);

// For putting back: smaller first. A root qdisc falls back to net.core.default_qdisc, so
// that one comes before; the module goes last.
[[nodiscard]] int undo_rank(const Item &item);

// A root qdisc that the kernel chose by itself, and may be replaced without losing
// somebody's settings.
struct RootQdisc {
	std::string value; // as a Value
	bool by_hand = false;
	std::string detail; // handle, options, and what is below
};
Result<RootQdisc> root_qdisc(System &system, const std::string &dev);
// The largest burst that the stack hands to @dev, in bytes.
Result<std::uint64_t> gso_max_size(System &system, const std::string &dev);

// Whether `enable` can have changed such a thing. What is remembered is obeyed by root.
[[nodiscard]] bool is_ours(const Item &item);

// The memory of all this: a file where only root writes. It is of one network namespace and of
// one boot, after which only changes with --persist are left to undo.
class StateFile {
public:
	explicit StateFile(System &system) : system_(system) {}

	Result<std::vector<Change>> load() const; // nothing remembered: empty
	Result<void> save(const std::vector<Change> &changes);
	Result<void> remove();

	static constexpr const char *path = "/var/lib/tcp_swift/enable.json";

private:
	System &system_;
};

} // namespace swift
