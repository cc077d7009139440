// SPDX-License-Identifier: MIT
// `swiftctl pods`: the pods of a Kubernetes node that ask for Swift by an annotation are given it, each in its
// own network namespace, and it is taken back from those that do so no more. What giving and taking
// back are is enable.h's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "enable.h"
#include "netns_list.h"

namespace swift {

inline constexpr const char *pod_annotation = "tcp-swift/enable"; // "true" or "false"

// As the command line gave them.
struct PodsOptions {
	std::string list; // a file, or a URL
	std::string token_file;
	std::string ca_file;
	EnableOptions give; // no_default, echo, set, dry_run
	std::string watch; // empty: once
	bool keep = false; // when it ends
	bool json = false;
	std::string root; // for tests
};

// --- pod_list.cpp: what Kubernetes tells ------------------------------------------------

struct Pod {
	std::string uid; // as in the name of its control group; empty: not told
	std::string name; // "namespace/name"
	bool asks = false;
	std::string wrong = {}; // why it does not, although it has the annotation
};

// Of a PodList of the API server or the kubelet, the pods with the annotation.
Result<std::vector<Pod>> read_pod_list(std::string_view json);
// Reads, or asks for, such a list: anew each time, with the token that the file has then.
using PodList = std::function<Result<std::vector<Pod>>()>;
Result<PodList> pod_list(const PodsOptions &options);

// --- pod_netns.cpp: where they are --------------------------------------------------------

// The network namespaces of pods by their uid, through the processes in their control groups; it takes a
// /proc that shows the node's processes, and the right to ask them. A pod that has none yet is left out.
// @cgroups: where cgroup2 is mounted.
Result<std::map<std::string, Netns>> pod_netns(const std::set<std::string> &uids, const std::string &cgroups,
					       const std::string &proc = "/proc");

// --- pods.cpp: who is given it -------------------------------------------------------------

// The network namespace of a pod.
struct PodNetns : Netns {
	std::uint64_t cookie = 0; // its own, unlike the number of its inode; 0: it could not be entered
};

// The node as the keeper needs it.
class PodNode : public Interface {
public:
	virtual Result<std::map<std::string, PodNetns>> find(const std::set<std::string> &uids) = 0;
	[[nodiscard]] virtual std::uint32_t own_inode() const = 0; // of the node's own network namespace
	// enable() and disable() in there; an Error: it could not be entered.
	virtual Result<Outcome> give(const Netns &netns, const std::string &pod, const EnableOptions &options) = 0;
	virtual Result<Outcome> take_back(const Netns &netns, const std::string &pod, const DisableOptions &options) = 0;
};
std::unique_ptr<PodNode> real_pod_node(System &system, const std::string &root);

// A pod after a pass.
struct PodRow {
	std::string pod; // its name
	std::string uid;
	std::string netns; // empty: it has none now
	// "swift", "waiting" for its first process, "taken back", "gone", "refused", "failed", "would change"
	std::string state;
	std::string why = {};
	std::vector<Event> events = {};
	std::vector<std::string> notes = {};
	std::vector<std::string> dry_lines = {};
	std::uint64_t cookie = 0; // of the namespace; 0: not asked for

	// Whether there is nothing new to say of it.
	[[nodiscard]] bool says_as(const PodRow &o) const
	{
		return pod == o.pod && uid == o.uid && netns == o.netns && cookie == o.cookie && state == o.state &&
		       why == o.why;
	}
};

// Whom it has been given is remembered in a file of this boot, so that the next process takes it back.
class PodKeeper {
public:
	static constexpr const char *path = "/var/lib/tcp_swift/pods.json";

	PodKeeper(System &system, PodNode &node, EnableOptions give) : system_(system), node_(node), give_(std::move(give)) {}

	// Gives it to those of @pods that ask and do not have it, and takes it back from all others.
	Result<std::vector<PodRow>> pass(const std::vector<Pod> &pods);

private:
	Result<void> load();
	Result<void> save();
	PodRow give(const Pod &pod, const PodNetns *netns);
	PodRow take_back(const std::string &uid, const Netns *netns);

	System &system_;
	PodNode &node_;
	EnableOptions give_;
	bool loaded_ = false;
	std::map<std::string, std::string> remembered_; // names by uid
	std::map<std::string, PodNetns> has_; // by uid: the namespace that this process has given it to
};

// --- pods_view.cpp --------------------------------------------------------------------------

[[nodiscard]] std::string rows_text(const std::vector<PodRow> &rows);
[[nodiscard]] std::string rows_json(const std::vector<PodRow> &rows, bool dry_run, bool one_line);

void add_options(CLI::App &verb, PodsOptions &o);
Result<int> run_pods(const PodsOptions &options);
extern const Verb pods_verb;

} // namespace swift
