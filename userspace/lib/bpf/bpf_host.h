// SPDX-License-Identifier: MIT
// The kernel's BPF side, as far as congestion controls need it: objects, maps, links, pins.
// An interface, so that tests put a made-up kernel in its place. It decides nothing: what is
// done in which order, and undone, is bpf_variant.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fd.h"
#include "interface.h"
#include "result.h"

namespace swift {

using BpfBytes = std::vector<std::byte>;

// A key or a value of a map, as the kernel wants it.
template <typename T> BpfBytes bpf_bytes(const T &value)
{
	static_assert(std::is_trivially_copyable_v<T>);
	const auto *p = reinterpret_cast<const std::byte *>(&value);

	return {p, p + sizeof(value)};
}

// Of an array.
inline BpfBytes bpf_first_key()
{
	return bpf_bytes(std::uint32_t{0});
}

enum class BpfProgramKind { congestion, sock_ops, cgroup_skb, tracing, raw_tracepoint, other };

struct BpfProgram {
	std::string name;
	BpfProgramKind kind = BpfProgramKind::other;
	std::string section;
};

struct BpfMap {
	std::string name;
	std::uint32_t type = 0;
	std::uint32_t key_bytes = 0;
	std::uint32_t value_bytes = 0;
	std::uint32_t max_entries = 0;
	bool ops = false; // the struct_ops itself
	bool internal = false; // the compiler's: .rodata and the like

	[[nodiscard]] bool same_layout(const BpfMap &other) const
	{
		return type == other.type && key_bytes == other.key_bytes &&
		       value_bytes == other.value_bytes && max_entries == other.max_entries;
	}
};

// Of a program in the kernel.
struct BpfProgramStatus {
	std::string name;
	std::uint32_t id = 0;
	std::uint32_t verified_insns = 0; // that the verifier went through
	std::uint32_t xlated_insns = 0; // of the program itself
	std::int64_t loaded_ns = 0; // CLOCK_REALTIME
	std::uint64_t misses = 0; // runs left out: it was running on that CPU already
	std::uint64_t runs = 0; // with their time, while kernel.bpf_stats_enabled is 1
	std::uint64_t run_ns = 0;
};

struct BpfOpsStatus {
	enum class State { unused, in_use, leaving, ready };

	std::uint32_t id = 0; // of the struct_ops map
	std::string name;
	State state = State::unused;
	std::uint32_t references = 0; // by sockets, roughly; 0 before 6.4
	bool by_link = false;
};

// What a struct_ops that somebody has registered is made of.
struct BpfOpsParts {
	std::vector<BpfProgramStatus> programs;
	std::vector<std::string> maps; // that they use, by name
};

// An object. What it has loaded and attached ends with it, unless it is pinned, and but
// for a plain registration.
class BpfObject : public Interface {
public:
	[[nodiscard]] virtual std::vector<BpfProgram> programs() const = 0;
	[[nodiscard]] virtual std::vector<BpfMap> maps() const = 0;

	// Before load().
	virtual Result<void> skip_program(const std::string &program) = 0;
	virtual Result<void> reuse_map(const std::string &map, const std::string &pin) = 0;
	virtual Result<void> set_max_entries(const std::string &map, std::uint32_t n) = 0;
	// Of .rodata; an object without it is left as it is.
	virtual Result<void> set_constant(const std::string &name, const BpfBytes &value) = 0;
	// A tracing program: attach_tracing() will be to @function of the program at @pin.
	virtual Result<void> set_target(const std::string &program, const std::string &pin,
					const std::string &function) = 0;
	virtual Result<void> load(bool ops_by_link) = 0;
	// All that the verifier said of the program it refused.
	[[nodiscard]] virtual std::string verifier_log() const = 0;

	virtual Result<void> write_map(const std::string &map, const BpfBytes &key,
				       const BpfBytes &value) = 0;
	virtual Result<void> pin_map(const std::string &map, const std::string &pin) = 0;
	virtual Result<void> pin_program(const std::string &program, const std::string &pin) = 0;
	virtual Result<void> attach_tracing(const std::string &program) = 0;
	virtual Result<void> attach_cgroup(const std::string &program, const std::string &cgroup) = 0;
	virtual Result<void> pin_link(const std::string &program, const std::string &pin) = 0;

	// By a link of its own if load() was told so, else until unregister_ops().
	virtual Result<void> register_ops() = 0;
	virtual Result<void> pin_ops_link(const std::string &pin) = 0;
	// Makes the struct_ops ready for a link to take it, see BpfHost::replace_ops().
	virtual Result<void> prepare_ops() = 0;
};

struct BpfAbilities {
	bool btf = false;
	bool struct_ops = false; // for congestion controls
	bool ops_links = false; // 6.4: registration that a pin holds, with atomic swap
	bool bpffs = false; // mounted where the pins go: here, or where pid 1 is
};

class BpfHost : public Interface {
public:
	[[nodiscard]] virtual BpfAbilities abilities() const = 0;
	virtual Result<std::unique_ptr<BpfObject>> open(const std::string &file) = 0;
	// Of those inside the program; ENOENT if there is none of that name.
	virtual Result<std::unique_ptr<BpfObject>> open_built_in(const std::string &name) = 0;
	[[nodiscard]] virtual std::vector<std::string> built_in() const = 0;
	virtual Result<void> mount_bpffs() = 0;

	// Pins. A directory that is not there is empty.
	virtual Result<std::vector<std::string>> pins(const std::string &dir) const = 0;
	[[nodiscard]] virtual bool exists(const std::string &path) const = 0;
	virtual Result<void> make_dir(const std::string &dir) = 0; // there already: done
	virtual Result<void> remove_pin(const std::string &pin) = 0;
	virtual Result<void> remove_dir(const std::string &dir) = 0; // with other things in it: kept
	virtual Result<void> rename(const std::string &from, const std::string &to) = 0;
	virtual Result<void> exchange(const std::string &a, const std::string &b) = 0;
	virtual Result<void> pin_again(const std::string &pin, const std::string &to) = 0;

	// Pinned maps.
	virtual Result<BpfMap> map(const std::string &pin) const = 0;
	virtual Result<void> create_hash(const BpfMap &map, const std::string &pin) = 0;
	virtual Result<std::vector<BpfBytes>> keys(const std::string &pin) const = 0;
	virtual Result<std::optional<BpfBytes>> read(const std::string &pin, const BpfBytes &key) const = 0;
	// Shows all that is in it, one after the other, in memory that is used again; values of maps that
	// have one for each CPU are in a row.
	using ShowEntry = std::function<void(std::span<const std::byte> key, std::span<const std::byte> value)>;
	virtual Result<void> visit(const std::string &pin, const ShowEntry &show) const = 0;
	// The same, kept: for small ones.
	Result<std::vector<std::pair<BpfBytes, BpfBytes>>> entries(const std::string &pin) const;
	// In a map that has one for each CPU, to all of them.
	virtual Result<void> write(const std::string &pin, const BpfBytes &key, const BpfBytes &value) = 0;
	virtual Result<void> erase(const std::string &pin, const BpfBytes &key) = 0;

	virtual Result<BpfProgramStatus> program(const std::string &pin) const = 0;
	virtual Result<std::string> cgroup_of(const std::string &link_pin) const = 0;
	// The program at @pin; ENOENT if the kernel and its modules have no such tracepoint.
	virtual Result<void> attach_raw_tracepoint(const std::string &pin, const std::string &tracepoint,
						   const std::string &link_pin) = 0;
	// Links end with their last pin anyway: this is so that it is now.
	virtual void detach(const std::string &link_pin) = 0;
	// What is pinned at @pin in place of what the link has; atomic.
	virtual Result<void> replace_program(const std::string &link_pin, const std::string &pin) = 0;
	virtual Result<void> replace_ops(const std::string &link_pin, const std::string &pin) = 0;

	virtual Result<BpfOpsStatus> ops(const std::string &pin) const = 0;
	// All struct_ops that the kernel has, registered or not, whoever has pinned them where.
	virtual Result<std::vector<BpfOpsStatus>> all_ops() const = 0;
	virtual Result<BpfOpsParts> parts_of_ops(std::uint32_t id) const = 0;
	// Of plain registrations.
	virtual Result<void> unregister_ops(std::uint32_t id) = 0;
	// A struct_ops like an unregistered one, with its programs: registered, and pinned at @to.
	virtual Result<void> register_copy(const std::string &pin, const std::string &to) = 0;
};

std::unique_ptr<BpfHost> real_bpf_host();

// The socket storages of all variants that have flows, for DiagClient::dump(): whoever may see all
// of the kernel's maps (CAP_SYS_ADMIN) needs no pin of theirs; without any rights, none.
[[nodiscard]] std::vector<Fd> bpf_flow_storages();

} // namespace swift
