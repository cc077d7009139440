// SPDX-License-Identifier: MIT
// The things of a host that `enable` changes and `disable` puts back: how each is read,
// written, compared and remembered. In which order, and what for, is enable.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netns.h"
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

// Whether the thread's network namespace is the one that the kernel began with. What is the host's alone
// (the module, net.core.default_qdisc, files) is changed and put back in that one.
[[nodiscard]] bool in_initial_netns(const Files &files);
[[nodiscard]] bool of_host(const Item &item);
// Of the thread's network namespace, whatever /sys shows.
[[nodiscard]] bool has_interface(const Files &files, const std::string &dev);

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

// Cookies of the network namespaces that have a name or a process; none: not all could be looked at.
std::optional<std::set<std::string>> live_netns();

// The network namespace that is changed: the thread's.
struct Place {
	std::string cookie = this_netns();
	std::string name = {}; // for people
	std::function<std::optional<std::set<std::string>>()> live = live_netns;
	// Of namespaces that were alive a moment ago: they are not looked for again. For who changes many, one after the other.
	std::set<std::string> known_live = {};
};

// The memory of all this: files where only root writes, one for each network namespace. They are of
// one boot, after which only changes with --persist are left to undo, which are the initial one's.
class StateFile {
public:
	explicit StateFile(System &system, Place place = {});

	// Before load(), by who holds the lock: what an older version remembered in the initial namespace's
	// file goes where it belongs, and namespaces that are gone are forgotten. Says which.
	Result<std::vector<std::string>> settle();
	Result<std::vector<Change>> load() const; // nothing remembered: empty
	Result<void> save(const std::vector<Change> &changes);
	Result<void> remove();

	[[nodiscard]] bool initial() const { return initial_; }
	// What other network namespaces are called of which something is remembered.
	[[nodiscard]] std::vector<std::string> others() const;

	static constexpr const char *path = "/var/lib/tcp_swift/enable.json"; // of the initial one
	[[nodiscard]] static std::string path_of(const std::string &cookie); // of another

private:
	struct Content;

	Result<std::optional<Content>> read(const std::string &file) const;
	[[nodiscard]] std::string own_path() const { return initial_ ? path : path_of(place_.cookie); }
	[[nodiscard]] std::vector<std::string> other_cookies() const;
	Result<void> move_old();
	Result<bool> take_over(const std::vector<Change> &changes);

	System &system_;
	Place place_;
	bool initial_;
};

} // namespace swift
