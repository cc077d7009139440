// SPDX-License-Identifier: MIT
// Congestion controls in BPF, as a person thinks of them: load one, see it, tune it, swap
// it, unload it. All or nothing, in the order that a kill at any moment can be mended after.
// How the kernel is told is bpf_host.h's, what the tunables are bpf_law.h's.
//
// A variant's pins, in /sys/fs/bpf/tcp_swift/NAME:
//	ops		the struct_ops map
//	ops_link	its registration, where the kernel has links for that (6.4)
//	tunables	the values as they were set, which the programs' maps cannot give back
//	prog_PROGRAM, link_PROGRAM, and every other map by its own name
// While it is made it is NAME~new; whatever is found there later was left by a killed loader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf_host.h"
#include "bpf_law.h"
#include "bpf_telemetry.h"
#include "sockets.h"
#include "system.h"

namespace swift {

inline constexpr const char *bpf_pin_dir = "/sys/fs/bpf/tcp_swift";

inline std::string bpf_dir(const std::string &variant)
{
	return std::string(bpf_pin_dir) + "/" + variant;
}

struct BpfLoadRequest {
	std::string name;
	std::string file; // "": the built-in object of that name
	std::vector<std::string> set; // tunable=value
	std::string cgroup; // "": the root of cgroup2
	bool echo = true;
	bool make_default = false;
	bool plain = false; // registration without a link, even if the kernel could
	bool dry_run = false;
};

struct BpfSetRequest {
	std::string name;
	std::vector<std::string> set; // tunable=value
	std::string prefix; // "": for all flows without a profile
	bool erase = false; // the profile of @prefix
	bool dry_run = false;
};

// What an action did, or would do, a sentence each.
struct BpfReport {
	std::vector<std::string> steps;
	std::vector<std::string> notes;
	std::optional<Error> error;
	bool usage = false; // the error is the command line's
	std::string registration; // "link", "plain", or "" if that is not what it was about
	std::string verifier_log; // of a program that was refused

	// Of what was done nothing is left; notes may say what is.
	BpfReport failed(const Error &e)
	{
		steps.clear();
		error = e;
		return *this;
	}
};

struct BpfStatus {
	std::string name;
	bool leftover = false; // of a killed loader
	bool pinned = true; // where we see it; else another mount namespace has its pins, or nobody
	std::string registration; // link, plain, none
	std::optional<BpfOpsStatus> ops;
	std::vector<BpfProgramStatus> programs;
	std::vector<std::string> cgroups; // that its programs are attached to
	std::string law; // "": not known
	std::size_t profiles = 0;
	std::size_t flows = 0; // in this network namespace
	// What became of packets' receive stamps, by the names of bpf/maps.h; none: it takes none.
	std::vector<std::pair<std::string_view, std::uint64_t>> stamps;
	std::int64_t since_ns = 0; // CLOCK_REALTIME; 0: not known
	bool is_default = false;
};

struct BpfListing {
	BpfAbilities abilities;
	std::vector<BpfStatus> loaded;
	std::vector<std::string> loadable; // built-in objects that are not loaded
	std::optional<TelemetryStatus> telemetry;
};

struct BpfSettings {
	const BpfLaw *law = nullptr;
	BpfValues values;
	std::vector<std::pair<BpfPrefix, BpfValues>> profiles;
	// What the programs compute with is not what was set: a killed `set`, or somebody else.
	bool differs = false;

	// Those of @prefix' profile; if it has none, or is "", those of all other flows.
	[[nodiscard]] Result<const BpfValues *> values_of(const std::string &prefix) const;
};

class BpfVariants {
public:
	BpfVariants(System &system, Sockets &sockets, BpfHost &host)
		: system_(system), sockets_(sockets), host_(host)
	{
	}

	[[nodiscard]] BpfReport load(const BpfLoadRequest &request);
	[[nodiscard]] BpfReport unload(const std::string &name, bool dry_run);
	[[nodiscard]] BpfReport swap(const BpfLoadRequest &request); // name, file, dry_run, plain
	[[nodiscard]] BpfReport set(const BpfSetRequest &request);
	// While somebody else changes variants it tries again, for @patience_s.
	Result<void> set(const BpfSetRequest &request, double patience_s);
	Result<BpfSettings> get(const std::string &name);
	Result<BpfListing> list();

private:
	struct Plan;
	class Undo;

	// Held while it is changed.
	Result<std::shared_ptr<void>> may_change(const std::string &name, bool dry_run) const;
	Result<void> kernel_can(BpfReport &report, bool dry_run);
	// @running: where the one is that it takes the place of; it has the echo if that one has.
	Result<Plan> plan(const BpfLoadRequest &request, BpfReport &report, const std::string &running = "");
	Result<void> check_name_free(const std::string &name) const;
	Result<std::string> root_cgroup() const;
	Result<void> build(const BpfLoadRequest &request, Plan &plan, BpfReport &report, Undo &undo);
	Result<void> pin_all(const Plan &plan, const std::string &dir);
	Result<void> pin_links(const Plan &plan);
	Result<void> exchange(const BpfLoadRequest &request, Plan &plan, BpfReport &report);
	Result<void> exchange_ops(Plan &plan, Undo &undo, BpfReport &report);
	Result<void> register_again(const std::string &dir);
	Result<void> remove_pins(const std::string &dir);
	Result<void> take_down(const std::string &dir);
	Result<void> mend(const std::string &name);
	void let_watch(const std::string &name, BpfReport &report);
	Result<void> put_default_back(const std::string &name, BpfReport &report, bool dry_run);
	[[nodiscard]] std::string default_cc() const;
	[[nodiscard]] bool registered(const std::string &name) const;
	[[nodiscard]] const BpfLaw *law_of(const std::string &dir) const;
	[[nodiscard]] std::size_t flows_of(const std::string &name);
	[[nodiscard]] BpfStatus status(const std::string &name, const std::string &dir);
	[[nodiscard]] std::vector<BpfStatus> without_pins(const std::vector<BpfStatus> &pinned);

	System &system_;
	Sockets &sockets_;
	BpfHost &host_;
};

// 1 to 15 of A-Z a-z 0-9 _ -, as the kernel and bpffs both take it.
Result<void> check_bpf_name(const std::string &name);
// For what is about to be pinned; a @dry_run only says so.
Result<void> need_bpffs(BpfHost &host, BpfReport &report, bool dry_run);
// @file, or the built-in object @name.
Result<std::unique_ptr<BpfObject>> open_object(BpfHost &host, const std::string &file, const std::string &name);
[[nodiscard]] std::string object_text(const std::string &file, const std::string &name);

} // namespace swift
