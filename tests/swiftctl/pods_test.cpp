// SPDX-License-Identifier: MIT
// swiftctl pods: who asks, where he is, that he gets it once, and that it is taken back, on a made-up node.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "fake_system.h"
#include "hostile_name.h"
#include "pods.h"
#include "tree.h"

using namespace swift;
using swift_test::FakeSystem;
using swift_test::Tree;

namespace {

const std::string web = "0d2f1b3c-1111-4222-8333-444455556666";
const std::string db = "0d2f1b3c-1111-4222-8333-777788889999";
constexpr const char *default_cc = "/proc/sys/net/ipv4/tcp_congestion_control";
constexpr std::uint32_t node_inode = 1;

// Pods' namespaces by uid; each is one of FakeSystem's by the same name.
class FakePodNode final : public PodNode {
public:
	explicit FakePodNode(FakeSystem &system) : system_(system) {}

	std::map<std::string, std::uint32_t> inodes; // of the pods that have a process
	std::map<std::uint32_t, std::uint64_t> cookies; // by inode, where it is not that number; 0: it cannot be asked
	std::optional<Error> blind;
	std::vector<std::string> calls;

	Result<std::map<std::string, PodNetns>> find(const std::set<std::string> &uids) override
	{
		std::map<std::string, PodNetns> found;

		if (blind)
			return *blind;
		for (const auto &[uid, inode] : inodes)
			if (uids.contains(uid))
				found[uid] = {{inode, std::to_string(inode), {"/proc/7/ns/net"}}, cookie_of(inode)};
		return found;
	}
	std::uint32_t own_inode() const override { return node_inode; }
	Result<Outcome> give(const Netns &netns, const std::string &pod, const EnableOptions &options) override
	{
		calls.push_back("give " + pod);
		return in(netns, [&](const Place &place) { return enable(system_, options, place); });
	}
	Result<Outcome> take_back(const Netns &netns, const std::string &pod, const DisableOptions &options) override
	{
		calls.push_back("take back " + pod);
		return in(netns, [&](const Place &place) { return disable(system_, system_, options, place); });
	}
	std::string default_in(std::uint32_t inode)
	{
		system_.enter(std::to_string(inode));
		const std::string out(trim(system_.files[default_cc]));

		system_.enter("");
		return out;
	}

private:
	template <typename Act> Result<Outcome> in(const Netns &netns, Act act)
	{
		if (!alive(netns.inode))
			return Error{"its network namespace has gone", {}, {}, ENOENT};
		system_.enter(netns.name);
		const std::string cookie = std::to_string(cookie_of(netns.inode));
		Outcome out = act(Place{.cookie = cookie, .name = "", .live = [] { return std::nullopt; }});

		system_.enter("");
		return out;
	}
	std::uint64_t cookie_of(std::uint32_t inode) const
	{
		const auto at = cookies.find(inode);

		return at != cookies.end() ? at->second : inode;
	}
	bool alive(std::uint32_t inode) const
	{
		return std::any_of(inodes.begin(), inodes.end(), [&](const auto &p) { return p.second == inode; });
	}

	FakeSystem &system_;
};

struct PodWorld {
	FakeSystem system;
	FakePodNode node{system};
	EnableOptions options;
	std::optional<PodKeeper> keeper;

	PodWorld()
	{
		system.load();
		node.inodes = {{web, 100}, {db, 200}};
		options.echo = true;
		begin();
	}
	void begin() { keeper.emplace(system, node, options); } // a new process
	std::vector<std::string> pass(const std::vector<Pod> &pods)
	{
		std::vector<std::string> states;
		const auto rows = keeper->pass(pods);

		if (!rows)
			return {rows.error().text()};
		for (const PodRow &row : *rows)
			states.push_back(row.pod + " " + row.state);
		return states;
	}
};

const Pod web_asks = {web, "shop/web", true};
const Pod db_asks = {db, "shop/db", true};
using States = std::vector<std::string>;

std::string list_of(const std::string &metadata)
{
	return R"({"kind": "PodList", "items": [{"metadata": {"name": "web", "namespace": "shop", "uid": ")" + web + "\"" +
	       metadata + "}}]}";
}

// What the kubelet writes of a static pod that asks.
std::string mirror_of(const std::string &mirror, const std::string &hash, const std::string &owner = "Node")
{
	return R"(, "ownerReferences": [{"apiVersion": "v1", "kind": ")" + owner + R"(", "name": "n1", "uid": "1"}],
		"annotations": {"tcp-swift/enable": "true", "kubernetes.io/config.mirror": ")" + mirror +
	       R"(", "kubernetes.io/config.hash": ")" + hash + "\"}";
}

} // namespace

TEST(pods, asks_whose_annotation_says_true)
{
	const auto yes = read_pod_list(list_of(R"(, "annotations": {"tcp-swift/enable": "true"})"));
	const auto no = read_pod_list(list_of(R"(, "annotations": {"tcp-swift/enable": "false"})"));
	const auto other = read_pod_list(list_of(R"(, "annotations": {"example.org/enable": "true"})"));
	const auto none = read_pod_list(list_of(""));

	ASSERT_TRUE(yes && no && other && none);
	ASSERT_EQ(yes->size(), 1U);
	EXPECT_TRUE(yes->front().asks);
	EXPECT_EQ(yes->front().name, "shop/web");
	EXPECT_EQ(yes->front().uid, web);
	ASSERT_EQ(no->size(), 1U);
	EXPECT_FALSE(no->front().asks);
	EXPECT_EQ(no->front().wrong, "");
	EXPECT_TRUE(other->empty());
	EXPECT_TRUE(none->empty());
}

TEST(pods, another_value_is_refused_in_one_line)
{
	for (const char *value : {R"("yes")", R"("True")", R"("")", "true", "1", "null", R"(["true"])"}) {
		const auto pods = read_pod_list(list_of(std::string(R"(, "annotations": {"tcp-swift/enable": )") + value + "}"));

		ASSERT_TRUE(pods) << value;
		ASSERT_EQ(pods->size(), 1U) << value;
		EXPECT_FALSE(pods->front().asks) << value;
		EXPECT_NE(pods->front().wrong.find(R"((allowed: "true", "false"))"), std::string::npos) << pods->front().wrong;
	}
}

TEST(pods, a_static_pod_has_its_hash_for_uid)
{
	const std::string hash(32, 'b');
	const auto pods = read_pod_list(list_of(mirror_of(hash, hash)));

	ASSERT_TRUE(pods);
	EXPECT_TRUE(pods->at(0).asks);
	EXPECT_EQ(pods->at(0).uid, hash);
}

// Who makes a pod writes its annotations, and may have another pod in mind.
TEST(pods, who_is_no_mirror_has_its_own_uid_whatever_hash_it_claims)
{
	const std::string hash(32, 'b');

	for (const std::string &metadata : States{
		     R"(, "annotations": {"tcp-swift/enable": "true", "kubernetes.io/config.hash": ")" + hash + "\"}",
		     mirror_of(hash, std::string(32, 'c')),
		     mirror_of("", ""),
		     mirror_of(hash, hash, "ReplicaSet"),
		     R"(, "ownerReferences": {"kind": "Node"}, "annotations": {"tcp-swift/enable": "true",
			"kubernetes.io/config.mirror": "b", "kubernetes.io/config.hash": "b"})",
		     R"(, "ownerReferences": [null, 3, "Node", {"kind": 3}], "annotations": {"tcp-swift/enable": "true",
			"kubernetes.io/config.mirror": "b", "kubernetes.io/config.hash": "b"})",
		     R"(, "ownerReferences": [{"kind": "Node"}], "annotations": {"tcp-swift/enable": "true",
			"kubernetes.io/config.mirror": null, "kubernetes.io/config.hash": null})",
	     }) {
		const auto pods = read_pod_list(list_of(metadata));

		ASSERT_TRUE(pods) << metadata;
		EXPECT_TRUE(pods->at(0).asks) << metadata;
		EXPECT_EQ(pods->at(0).uid, web) << metadata;
	}
}

TEST(pods, a_hash_that_is_anothers_is_refused)
{
	const std::string hash(32, 'b');
	const auto item = [](const std::string &uid, const std::string &metadata) {
		return R"({"metadata": {"name": "web", "namespace": "shop", "uid": ")" + uid + "\"" + metadata + "}}";
	};

	for (const auto &[mirrored, other] : {
		     std::pair(db, item(db, "")), // of a pod that did not ask
		     std::pair(db, item(db, R"(, "annotations": {"tcp-swift/enable": "false"})")),
		     std::pair(hash, item(db, R"(, "ownerReferences": [{"kind": "Node"}], "annotations": {
			"kubernetes.io/config.mirror": ")" + hash + R"(", "kubernetes.io/config.hash": ")" + hash + "\"}")),
	     })
		for (const bool first : {true, false}) {
			const std::string it = item(web, mirror_of(mirrored, mirrored));
			const auto pods = read_pod_list("{\"items\": [" + (first ? it + "," + other : other + "," + it) + "]}");

			ASSERT_TRUE(pods);
			const auto at = std::find_if(pods->begin(), pods->end(), [](const Pod &p) { return p.uid == web; });

			ASSERT_NE(at, pods->end()) << other;
			EXPECT_FALSE(at->asks);
			EXPECT_NE(at->wrong.find("kubernetes.io/config.hash"), std::string::npos) << at->wrong;
			for (const Pod &p : *pods)
				EXPECT_FALSE(p.asks) << p.uid;
		}
}

// One such item is no reason to leave all others as they are.
TEST(pods, who_has_no_uid_is_refused_alone)
{
	PodWorld w;
	const std::string text = R"({"items": [
		{"metadata": {"name": "one", "namespace": "shop", "annotations": {"tcp-swift/enable": "true"}}},
		{"metadata": {"name": "two", "namespace": "shop", "uid": "", "annotations": {"tcp-swift/enable": "true"}}},
		{"metadata": {"name": "no", "namespace": "shop", "uid": 3, "annotations": {"tcp-swift/enable": "false"}}},
		{"metadata": {"name": "web", "namespace": "shop", "uid": ")" + web + R"(", "annotations": {"tcp-swift/enable": "true"}}}]})";
	const auto pods = read_pod_list(text);

	ASSERT_TRUE(pods) << pods.error().text();
	const auto rows = w.keeper->pass(*pods);

	ASSERT_TRUE(rows);
	ASSERT_EQ(rows->size(), 3U);
	for (const int at : {0, 1}) {
		EXPECT_EQ(rows->at(at).state, "refused");
		EXPECT_EQ(rows->at(at).why, "it has no metadata.uid");
	}
	EXPECT_FALSE(rows->at(0).says_as(rows->at(1)));
	EXPECT_EQ(rows->at(2).state, "swift");
}

// Pods of the next page are not gone.
TEST(pods, a_part_of_a_list_is_refused)
{
	const auto part = read_pod_list(R"({"metadata":{"continue":"abc"},"items":[]})");

	ASSERT_FALSE(part);
	EXPECT_NE(part.error().text().find("metadata.continue"), std::string::npos);
	EXPECT_TRUE(read_pod_list(R"({"metadata":{"continue":""},"items":[]})"));
	EXPECT_TRUE(read_pod_list(R"({"metadata":{"resourceVersion":"7"},"items":[]})"));
}

TEST(pods, what_is_no_list_is_refused)
{
	for (const char *text : {"", "{", "[]", "null", "{}", R"({"items": 3})", R"({"kind": "Status", "code": 403})"}) {
		const auto pods = read_pod_list(text);

		ASSERT_FALSE(pods) << text;
		EXPECT_NE(pods.error().text().find("no list of pods"), std::string::npos) << text;
	}
	// These are lists, in which nobody asks.
	for (const char *text : {R"({"items": []})", R"({"items": null})", R"({"items": [3, null, {}, {"metadata": 3}]})"}) {
		const auto pods = read_pod_list(text);

		ASSERT_TRUE(pods) << text;
		EXPECT_TRUE(pods->empty()) << text;
	}
}

TEST(pods, is_given_it_once_and_it_is_taken_back)
{
	PodWorld w;
	const auto before = w.system.world();

	EXPECT_EQ(w.pass({web_asks, db_asks}), (States{"shop/web swift", "shop/db swift"}));
	EXPECT_EQ(w.node.default_in(100), "swift");
	EXPECT_EQ(w.node.default_in(200), "swift");
	EXPECT_EQ(w.node.default_in(300), "cubic"); // nobody else's
	EXPECT_EQ(w.pass({web_asks, db_asks}), (States{"shop/web swift", "shop/db swift"}));
	EXPECT_EQ(w.node.calls, (States{"give shop/web", "give shop/db"}));
	// "false" and no annotation are one.
	EXPECT_EQ(w.pass({web_asks, {db, "shop/db", false}}), (States{"shop/web swift", "shop/db taken back"}));
	EXPECT_EQ(w.node.default_in(100), "swift");
	EXPECT_EQ(w.node.default_in(200), "cubic");
	EXPECT_EQ(w.pass({}), (States{"shop/web taken back"}));
	EXPECT_EQ(w.node.default_in(100), "cubic");
	EXPECT_EQ(w.pass({}), States{});
	w.system.files.erase("/proc/sys/net/ipv4/tcp_swift/echo"); // not of the comparison: it came with the namespaces
	EXPECT_FALSE(w.system.exists(PodKeeper::path));
	EXPECT_EQ(w.system.world().second, before.second);
}

TEST(pods, the_next_process_takes_back_what_the_last_one_gave)
{
	PodWorld w;

	w.pass({web_asks, db_asks});
	w.begin(); // the last one was killed
	EXPECT_EQ(w.pass({db_asks}), (States{"shop/db swift", "shop/web taken back"}));
	EXPECT_EQ(w.node.default_in(100), "cubic");
	EXPECT_EQ(w.node.default_in(200), "swift");
}

TEST(pods, is_remembered_before_it_is_given)
{
	// The power goes at each operation that changes something: the next process leaves nothing behind.
	for (int at = 1;; at++) {
		PodWorld w;

		w.system.fail_at = at;
		w.system.dead_after = true;
		w.pass({web_asks});
		const bool all = w.system.operations < at;

		w.system.fail_at = 0;
		w.system.dead_after = false;
		w.begin();
		w.pass({});
		EXPECT_EQ(w.node.default_in(100), "cubic") << "dead at operation " << at;
		EXPECT_FALSE(w.system.exists(PodKeeper::path)) << at;
		if (all) {
			EXPECT_GT(at, 4);
			break;
		}
	}
}

TEST(pods, a_sandbox_made_anew_is_given_it_as_well)
{
	PodWorld w;

	w.pass({web_asks});
	w.node.inodes[web] = 300;
	EXPECT_EQ(w.pass({web_asks}), States{"shop/web swift"});
	EXPECT_EQ(w.node.default_in(300), "swift");
}

// The kernel hands out an inode's number again as soon as it is free.
TEST(pods, a_sandbox_made_anew_by_the_number_of_the_old_one_is_given_it_as_well)
{
	PodWorld w;

	ASSERT_EQ(w.pass({web_asks}), States{"shop/web swift"});
	const auto before = *w.keeper->pass({web_asks});

	w.system.enter("100");
	w.system.files[default_cc] = "cubic\n"; // as it begins
	w.system.enter("");
	w.node.cookies[100] = 7;
	const auto rows = w.keeper->pass({web_asks});

	ASSERT_TRUE(rows);
	EXPECT_EQ(w.node.default_in(100), "swift");
	EXPECT_EQ(w.node.calls, (States{"give shop/web", "give shop/web"}));
	EXPECT_FALSE(rows->at(0).says_as(before.at(0))); // it is news
	EXPECT_EQ(w.pass({web_asks}), States{"shop/web swift"});
	EXPECT_EQ(w.node.calls.size(), 2U);
}

TEST(pods, one_whose_namespace_cannot_be_asked_for_a_moment_keeps_what_it_has)
{
	PodWorld w;

	w.pass({web_asks});
	const auto before = *w.keeper->pass({web_asks});

	w.node.cookies[100] = 0;
	const auto rows = w.keeper->pass({web_asks});

	ASSERT_TRUE(rows);
	EXPECT_TRUE(rows->at(0).says_as(before.at(0)));
	EXPECT_EQ(w.node.calls, States{"give shop/web"});
	w.node.cookies.clear();
	EXPECT_EQ(w.pass({web_asks}), States{"shop/web swift"});
	EXPECT_EQ(w.node.calls, States{"give shop/web"});
}

TEST(pods, waits_for_the_first_process)
{
	PodWorld w;

	w.node.inodes.erase(web);
	EXPECT_EQ(w.pass({web_asks}), States{"shop/web waiting"});
	EXPECT_TRUE(w.node.calls.empty());
	w.node.inodes[web] = 100;
	EXPECT_EQ(w.pass({web_asks}), States{"shop/web swift"});
}

TEST(pods, who_has_the_nodes_own_namespace_is_refused)
{
	PodWorld w;

	w.node.inodes[web] = node_inode;
	EXPECT_EQ(w.pass({web_asks, db_asks}), (States{"shop/web refused", "shop/db swift"}));
	EXPECT_EQ(w.node.calls, States{"give shop/db"});
}

TEST(pods, one_that_dies_costs_its_own_row)
{
	PodWorld w;

	w.pass({web_asks, db_asks});
	w.node.inodes.erase(web);
	EXPECT_EQ(w.pass({db_asks}), (States{"shop/db swift", "shop/web gone"}));
	EXPECT_EQ(w.pass({db_asks}), States{"shop/db swift"});
}

TEST(pods, a_failure_is_said_and_tried_again)
{
	PodWorld w;

	w.system.fail_at = 3; // beyond what remembers
	EXPECT_EQ(w.pass({web_asks, db_asks}), (States{"shop/web failed", "shop/db swift"}));
	w.system.fail_at = 0;
	EXPECT_EQ(w.pass({web_asks, db_asks}), (States{"shop/web swift", "shop/db swift"}));
	EXPECT_EQ(w.node.default_in(100), "swift");
}

TEST(pods, a_node_that_cannot_be_looked_at_changes_nothing)
{
	PodWorld w;

	w.pass({web_asks});
	w.node.blind = Error{"cannot see the processes of pods: hostPID is missing"};
	EXPECT_EQ(w.pass({}), States{"cannot see the processes of pods: hostPID is missing"});
	EXPECT_EQ(w.node.default_in(100), "swift");
	w.node.blind.reset();
	EXPECT_EQ(w.pass({}), States{"shop/web taken back"});
}

TEST(pods, of_an_earlier_boot_nothing_is_left)
{
	PodWorld w;

	w.system.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	w.pass({web_asks});
	w.system.files["/proc/sys/kernel/random/boot_id"] = "two\n";
	w.begin();
	EXPECT_EQ(w.pass({}), States{});
}

TEST(pods, a_memory_without_sense_is_said_and_kept)
{
	for (const char *text : {"", "{", "[]", "{}", R"({"schema": 2, "pods": []})", R"({"schema": "1", "pods": []})", R"({"schema": 1, "pods": 3})"}) {
		PodWorld w;

		w.system.files[PodKeeper::path] = text;
		const States said = w.pass({web_asks});

		ASSERT_EQ(said.size(), 1U);
		EXPECT_TRUE(said[0].starts_with("cannot make sense of /var/lib/tcp_swift/pods.json")) << said[0];
		EXPECT_EQ(w.system.files[PodKeeper::path], text);
		EXPECT_EQ(w.pass({web_asks}), said); // again
		EXPECT_TRUE(w.node.calls.empty());
	}
}

TEST(pods, dry_run_changes_nothing)
{
	PodWorld w;

	w.pass({db_asks});
	w.options.dry_run = true;
	w.begin();
	const auto before = w.system.world();
	const auto rows = w.keeper->pass({web_asks});

	ASSERT_TRUE(rows);
	ASSERT_EQ(rows->size(), 2U);
	EXPECT_EQ(rows->at(0).state, "would change");
	EXPECT_EQ(rows->at(1).state, "would change");
	EXPECT_EQ(w.system.world(), before);
	EXPECT_EQ(w.node.default_in(100), "cubic");
	EXPECT_EQ(w.node.default_in(200), "swift");
	const std::string text = rows_text(*rows);

	EXPECT_NE(text.find("# shop/web\nsysctl -w net.ipv4.tcp_swift.echo=1\n"), std::string::npos) << text;
}

TEST(pods, names_reach_no_terminal_as_they_are)
{
	const PodRow row = {"shop/web", web, "7", "failed", swift_test::hostile_name, {}, {swift_test::hostile_name}};

	EXPECT_EQ(rows_text({row}).find('\x1b'), std::string::npos);
	const auto pods = read_pod_list(R"({"items": [{"metadata": {"uid": "a\u001b[2J", "name": "\u001b]0;x\u0007",
		"annotations": {"tcp-swift/enable": "\u001b[31mtrue"}}}]})");

	ASSERT_TRUE(pods);
	for (const std::string &text : {pods->at(0).name, pods->at(0).uid, pods->at(0).wrong})
		EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// --- Where they are --------------------------------------------------------------------------

namespace {

const std::string pod_slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d2f1b3c_1111_4222_8333_444455556666.slice";
const std::string in_container = "/" + pod_slice + "/cri-containerd-" + std::string(64, 'a') + ".scope";

void process(const Tree &t, const std::string &pid, const std::string &group)
{
	t.file("proc/" + pid + "/ns/net");
	t.file("proc/" + pid + "/cgroup", "1:name=systemd:/\n0::" + group + "\n");
}

} // namespace

TEST(pods, are_found_by_the_processes_of_their_control_group)
{
	const Tree t;

	process(t, "17", in_container);
	t.file("cgroup" + in_container + "/cgroup.procs", "17\n");
	t.file("cgroup/system.slice/ssh.service/cgroup.procs", "18\n");
	const auto found = pod_netns({web, db}, t.path + "/cgroup", t.path + "/proc");

	ASSERT_TRUE(found);
	ASSERT_EQ(found->size(), 1U);
	EXPECT_EQ(found->at(web).inode, static_cast<std::uint32_t>(t.inode("proc/17/ns/net")));
	EXPECT_EQ(found->at(web).paths, States{t.path + "/proc/17/ns/net"});
}

TEST(pods, a_process_that_has_got_the_number_of_another_is_not_asked)
{
	const Tree t;

	process(t, "17", "/system.slice/ssh.service");
	process(t, "18", "/../.." + in_container); // as /proc shows it in a control group's namespace
	t.file("cgroup" + in_container + "/cgroup.procs", "16\n17\n18\n"); // 16 has ended
	const auto found = pod_netns({web}, t.path + "/cgroup", t.path + "/proc");

	ASSERT_TRUE(found);
	EXPECT_EQ(found->at(web).paths, States{t.path + "/proc/18/ns/net"});
}

TEST(pods, what_a_container_makes_for_itself_comes_last)
{
	const Tree t;

	process(t, "17", in_container + "/docker/inner");
	process(t, "18", in_container);
	t.file("cgroup" + in_container + "/docker/inner/cgroup.procs", "17\n");
	t.file("cgroup" + in_container + "/cgroup.procs", "18\n");
	const auto found = pod_netns({web}, t.path + "/cgroup", t.path + "/proc");

	ASSERT_TRUE(found);
	EXPECT_EQ(found->at(web).paths, States{t.path + "/proc/18/ns/net"});
}

// A unit or a pod that ends while the control groups are looked through costs no other pod.
TEST(pods, are_found_where_other_control_groups_vanish_meanwhile)
{
	const Tree t;
	const std::string groups = t.path + "/cgroup/";
	std::vector<std::string> names;
	std::array<std::string, 2> lists; // of the processes of the first and the last

	for (const char *name : {"a", "b", "c"})
		std::filesystem::create_directories(groups + name);
	for (const auto &e : std::filesystem::directory_iterator(groups)) // in the order in which they are read
		names.push_back(e.path().filename());
	ASSERT_EQ(names.size(), 3U);
	for (int i = 0; i < 2; i++) {
		const std::string group = "/" + names.at(i * 2) + "/kubepods/pod" + (i == 0 ? web : db);

		process(t, std::to_string(17 + i), group);
		std::filesystem::create_directories(groups + group);
		lists.at(i) = groups + group + "/cgroup.procs";
		ASSERT_EQ(mkfifo(lists.at(i).c_str(), 0600), 0);
	}

	std::atomic<bool> ended = false;
	std::thread node([&] { // whose group in the middle goes when the first pod is looked at
		std::array<bool, 2> told = {};

		while (!ended) {
			for (int i = 0; i < 2; i++) {
				if (told.at(i))
					continue;
				const Fd pipe(open(lists.at(i).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));

				if (!pipe) // nobody reads it
					continue;
				std::filesystem::remove(groups + names[1]);
				told.at(i) = dprintf(pipe.get(), "%d\n", 17 + i) > 0;
			}
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		}
	});
	const auto found = pod_netns({web, db}, t.path + "/cgroup", t.path + "/proc");

	ended = true;
	node.join();
	EXPECT_FALSE(std::filesystem::exists(groups + names[1]));
	ASSERT_TRUE(found) << found.error().text();
	EXPECT_EQ(found->size(), 2U);
}

// Who is not seen for that reason is not gone.
TEST(pods, what_cannot_be_looked_at_is_an_error)
{
	bool root = true;

	std::thread([&] {
		setfsuid(65534); // of this thread alone
		root = setfsuid(-1) == 0;
		if (root)
			return;
		const Tree t;

		process(t, "17", in_container);
		t.file("cgroup" + in_container + "/cgroup.procs", "17\n");
		t.file("cgroup/other.slice/cgroup.procs");
		for (const std::string &closed : States{"/other.slice", "/kubepods.slice", "/" + pod_slice, in_container,
							in_container + "/cgroup.procs"}) {
			const std::string path = t.path + "/cgroup" + closed;

			std::filesystem::permissions(path, std::filesystem::perms::none);
			const auto found = pod_netns({web}, t.path + "/cgroup", t.path + "/proc");

			std::filesystem::permissions(path, std::filesystem::perms::owner_all);
			ASSERT_FALSE(found) << closed;
			EXPECT_NE(found.error().text().find(closed), std::string::npos) << found.error().text();
			EXPECT_EQ(found.error().code, EACCES);
		}
		EXPECT_EQ(pod_netns({web}, t.path + "/cgroup", t.path + "/proc")->size(), 1U);
	}).join();
	if (root)
		GTEST_SKIP() << "cannot do without root's rights";
}

// Nor does a container that makes them keep others from being found.
TEST(pods, control_groups_deeper_than_a_path_can_tell_are_passed_over)
{
	const Tree t;
	const std::string pod = "/kubepods/pod" + db;
	const std::string name(255, 'd');

	process(t, "17", in_container);
	t.file("cgroup" + in_container + "/cgroup.procs", "17\n");
	t.file("cgroup" + pod + "/cgroup.procs");
	Fd at(open((t.path + "/cgroup" + pod).c_str(), O_PATH | O_CLOEXEC));

	for (int depth = 0; depth < 20; depth++) {
		ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0700), 0);
		at = Fd(openat(at.get(), name.c_str(), O_PATH | O_CLOEXEC));
	}
	const auto found = pod_netns({web, db}, t.path + "/cgroup", t.path + "/proc");

	ASSERT_TRUE(found) << found.error().text();
	EXPECT_TRUE(found->contains(web));
}

TEST(pods, what_is_missing_to_find_them_is_said)
{
	const Tree t;

	t.file("cgroup" + in_container + "/cgroup.procs", "0\n");
	const auto other_pids = pod_netns({web}, t.path + "/cgroup", t.path + "/proc");
	const auto none = pod_netns({web}, t.path + "/nowhere");
	const auto nobody = pod_netns({}, "");

	ASSERT_FALSE(other_pids);
	EXPECT_NE(other_pids.error().text().find("hostPID"), std::string::npos);
	ASSERT_FALSE(none);
	EXPECT_NE(none.error().text().find("cgroup2"), std::string::npos);
	EXPECT_TRUE(nobody);
}
