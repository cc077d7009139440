// SPDX-License-Identifier: MIT
// Whose flows are: network namespaces, control groups, pods, processes; and flows at their end. On the real
// kernel where that needs no rights, else on made-up trees.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "cgroups.h"
#include "diag_get.h"
#include "dump_builder.h"
#include "ended_book.h"
#include "ended_flows.h"
#include "flow_table.h"
#include "netns.h"
#include "netns_list.h"
#include "netns_visit.h"
#include "owner.h"
#include "socket_processes.h"
#include "summary.h"
#include "tree.h"

using namespace swift;
using swift_test::Tree;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t second = 1'000'000'000;
const std::string id(64, 'a');
const std::string uid = "0d2f1b3c-1111-4222-8333-444455556666";
const std::string uid_ = "0d2f1b3c_1111_4222_8333_444455556666";

struct Named {
	const char *cgroup;
	const char *unit;
	std::string container;
	std::string pod;
	const char *name;
};

} // namespace

TEST(whose, owners_by_the_paths_that_systemd_and_the_runtimes_make)
{
	const std::string short_id = id.substr(0, 12);
	const std::string other_id(64, 'b');
	const std::vector<std::pair<std::string, Named>> all = {
		{"/", {"", "", "", "", "/"}},
		{"/system.slice/nginx.service", {"", "nginx.service", "", "", "nginx.service"}},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/iperf.service",
		 {"", "iperf.service", "", "", "iperf.service"}},
		{"/user.slice/user-1000.slice/session-3.scope", {"", "session-3.scope", "", "", "session-3.scope"}},
		{"/init.scope", {"", "", "", "", "/init.scope"}},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + id + ".scope",
		 {"", "", short_id, uid, uid.c_str()}},
		{"/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + id + ".scope", {"", "", short_id, uid, uid.c_str()}},
		{"/kubepods/besteffort/pod" + uid + "/" + id, {"", "", short_id, uid, uid.c_str()}},
		// A static pod's uid is a hash.
		{"/kubepods/burstable/pod" + std::string(32, 'c') + "/" + id, {"", "", short_id, std::string(32, 'c'), ""}},
		{"/docker/" + id, {"", "", short_id, "", ""}},
		{"/system.slice/docker-" + id + ".scope", {"", "", short_id, "", ""}},
		{"/machine.slice/libpod-" + id + ".scope/container", {"", "", short_id, "", ""}},
		// A node that is a container, and systemd in a container.
		{"/system.slice/docker-" + other_id + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uid_ +
			 ".slice/cri-containerd-" + id + ".scope",
		 {"", "", short_id, uid, ""}},
		{"/docker/" + id + "/system.slice/ssh.service", {"", "ssh.service", short_id, "", ""}},
		// Nearly one.
		{"/docker/" + id.substr(1), {"", "", "", "", ""}},
		{"/pod" + uid, {"", "", "", "", ""}},
		{"/kubepods/podracer", {"", "", "", "", ""}},
	};

	for (const auto &[cgroup, wanted] : all) {
		const Owner o = owner_of(cgroup);

		EXPECT_EQ(o.cgroup, cgroup);
		EXPECT_EQ(o.unit, wanted.unit) << cgroup;
		EXPECT_EQ(o.container, wanted.container) << cgroup;
		EXPECT_EQ(o.pod, wanted.pod) << cgroup;
		if (*wanted.name) {
			EXPECT_EQ(o.name(), wanted.name) << cgroup;
		}
	}
}

TEST(whose, cgroups_are_walked_for_what_is_new_alone)
{
	const Tree tree;

	fs::create_directories(tree.path + "/system.slice/a.service");
	Cgroups cgroups(tree.path);

	EXPECT_EQ(cgroups.path(tree.inode("system.slice/a.service")), "/system.slice/a.service");
	EXPECT_EQ(cgroups.path(tree.inode("system.slice")), "/system.slice");
	EXPECT_EQ(cgroups.path(tree.inode("")), "/");
	EXPECT_EQ(cgroups.walks(), 1U);
	fs::create_directories(tree.path + "/b.scope");
	EXPECT_EQ(cgroups.path(tree.inode("b.scope")), "/b.scope");
	EXPECT_EQ(cgroups.walks(), 2U);
	// One that has gone is looked for once.
	EXPECT_EQ(cgroups.path(4711'4711), "");
	EXPECT_EQ(cgroups.path(4711'4711), "");
	EXPECT_EQ(cgroups.walks(), 3U);
	EXPECT_EQ(Cgroups("").path(1), "");
	EXPECT_EQ(cgroups.path(0), "");
	EXPECT_EQ(cgroups.walks(), 3U);
}

TEST(whose, the_mount_of_cgroup2_is_found_where_it_is)
{
	const Tree tree;

	tree.file("v2", "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
	tree.file("both", "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\nnone /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
	tree.file("none", "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n");
	EXPECT_EQ(Cgroups::find_mount(tree.path + "/v2"), "/sys/fs/cgroup");
	EXPECT_EQ(Cgroups::find_mount(tree.path + "/both"), "/sys/fs/cgroup/unified");
	EXPECT_EQ(Cgroups::find_mount(tree.path + "/none"), "");
	EXPECT_EQ(Cgroups::find_mount(tree.path + "/missing"), "");
}

TEST(whose, the_kubelet_names_pods_and_containers)
{
	const Tree tree;
	const Tree logs;
	const std::string group = "kubepods/burstable/pod" + uid + "/" + id;

	fs::create_directories(tree.path + "/" + group);
	Owners owners(Cgroups(tree.path), KubeletNames(logs.path));
	const std::uint64_t number = tree.inode(group);

	EXPECT_EQ(owners.find(number, second).name(), uid); // not named yet
	logs.file("pods/shop_web-1_" + uid + "/nginx/0.log");
	logs.file("containers/web-1_shop_nginx-" + id + ".log");
	logs.file("containers/nonsense.log");
	EXPECT_EQ(owners.find(number, 2 * second).name(), uid); // not looked for at each look
	EXPECT_EQ(owners.find(number, 10 * second).name(), "shop/web-1");
	EXPECT_EQ(owners.find(number, 10 * second).container, "nginx");
	EXPECT_EQ(owners.find(number, 10 * second).pod_uid, uid);
}

TEST(whose, a_process_is_found_by_its_socket)
{
	const Fd s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	struct stat at {};

	ASSERT_EQ(fstat(s.get(), &at), 0);
	const auto inode = static_cast<std::uint32_t>(at.st_ino);
	SocketProcesses processes("/nowhere");
	const auto found = processes.find(inode, "");

	ASSERT_TRUE(found);
	EXPECT_EQ(found->pid, static_cast<std::uint32_t>(getpid()));
	EXPECT_EQ(found->program, "swiftctl_tests");
	EXPECT_EQ(processes.walks(), 1U);
	EXPECT_TRUE(processes.find(inode, ""));
	EXPECT_EQ(processes.walks(), 1U);
	EXPECT_FALSE(processes.find(0, ""));
	EXPECT_FALSE(processes.find(1, "")); // nobody's; there was a walk a moment ago
	EXPECT_EQ(processes.walks(), 1U);
}

TEST(whose, a_control_group_says_which_processes_to_ask)
{
	const Tree tree;
	const Fd s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	struct stat at {};

	ASSERT_EQ(fstat(s.get(), &at), 0);
	tree.file("a.scope/cgroup.procs", "0\n" + std::to_string(getpid()) + "\n");
	SocketProcesses processes(tree.path);

	ASSERT_TRUE(processes.find(static_cast<std::uint32_t>(at.st_ino), "/a.scope"));
	EXPECT_EQ(processes.walks(), 0U);
}

TEST(whose, a_host_of_very_many_sockets_is_looked_through_all_the_same)
{
	const Tree proc;
	SocketProcesses processes("/nowhere", proc.path);

	for (const auto &[pid, from, to] : {std::tuple("77", 0, 1), {"78", 1, (1 << 17) + 10}}) {
		const std::string fds = proc.path + "/" + pid + "/fd/";

		fs::create_directories(fds);
		proc.file(std::string(pid) + "/comm", std::string("p") + pid + "\n");
		for (int i = from; i < to; i++)
			ASSERT_EQ(symlink(("socket:[" + std::to_string(1000 + i) + "]").c_str(), (fds + std::to_string(i)).c_str()), 0);
	}
	const auto found = processes.find(1000, "");

	ASSERT_TRUE(found);
	EXPECT_EQ(found->program, "p77");
}

TEST(whose, what_a_process_closed_it_has_no_more)
{
	const Tree proc;
	SocketProcesses processes("/nowhere", proc.path);

	fs::create_directories(proc.path + "/77/fd");
	proc.file("77/comm", "nginx\n");
	fs::create_symlink("socket:[4711]", proc.path + "/77/fd/5");
	ASSERT_TRUE(processes.find(4711, ""));
	EXPECT_EQ(processes.find(4711, "")->program, "nginx");
	fs::remove(proc.path + "/77/fd/5");
	fs::create_symlink("socket:[4712]", proc.path + "/77/fd/5");
	EXPECT_FALSE(processes.find(4711, ""));
}

TEST(whose, processes_tell_of_namespaces)
{
	const Tree proc;
	NetnsList list(proc.path, {});
	const auto process = [&](const std::string &pid, const std::string &inode) {
		fs::create_directories(proc.path + "/" + pid + "/ns");
		fs::remove(proc.path + "/" + pid + "/ns/net");
		fs::create_symlink("net:[" + inode + "]", proc.path + "/" + pid + "/ns/net");
	};

	proc.file("thread-self/ns/net");
	process("10", "100");
	process("11", "100");
	process("12", "200");
	proc.file("13/ns/net"); // one that does not tell
	proc.file("15/ns/other"); // one that has ended: it has no namespace any more
	proc.file("uptime");
	ASSERT_EQ(list.scan().size(), 2U);
	EXPECT_EQ(list.scan()[0].name, "100");
	EXPECT_EQ(list.scan()[0].paths.size(), 2U);
	EXPECT_EQ(list.silent_processes(), 1U);
	// An old one that changes is noticed in a while, a new one at once.
	process("12", "300");
	for (int i = 0; i < 8; i++)
		list.scan();
	EXPECT_EQ(list.scan()[1].name, "300");
	process("14", "400");
	EXPECT_EQ(list.scan().size(), 3U);
	// Another process may have the pid of one that has ended.
	for (int i = 0; i < 8; i++)
		list.scan();
	fs::create_directories(proc.path + "/new/ns");
	fs::create_symlink("net:[500]", proc.path + "/new/ns/net");
	fs::remove_all(proc.path + "/14");
	fs::rename(proc.path + "/new", proc.path + "/14");
	EXPECT_EQ(list.scan()[2].name, "500");
	// Who could not be found in one any more is asked at once.
	for (int i = 0; i < 8; i++)
		list.scan();
	process("14", "600");
	list.ask_again(500);
	EXPECT_EQ(list.scan()[2].name, "600");
	fs::remove_all(proc.path + "/14");
	EXPECT_EQ(list.scan().size(), 2U);
	// It is not the namespace that it was.
	EXPECT_EQ(list.scan()[0].open().error().code, ENOENT);
}

TEST(whose, entering_namespaces_leaves_the_program_where_it_is)
{
	const std::uint32_t home = this_netns_inode();
	std::uint32_t there = 0, other = 0;
	std::thread([&] {
		if (unshare(CLONE_NEWNET) < 0)
			return;
		other = this_netns_inode();
		const Netns n = {other, "made", {"/proc/self/task/" + std::to_string(syscall(SYS_gettid)) + "/ns/net"}};
		const Netns gone = {1, "gone", {"/proc/self/ns/net", "/nowhere"}};
		const Netns wrong = {0, "mnt", {"/proc/self/ns/mnt"}};
		const NetnsVisit visit = visit_netns({gone, n, wrong}, [&](const Netns &, int) { there = this_netns_inode(); });

		EXPECT_EQ(visit.entered, 1U);
		EXPECT_EQ(visit.gone, (std::vector<std::uint32_t>{1, wrong.inode}));
		EXPECT_FALSE(visit.trouble);
		EXPECT_EQ(this_netns_inode(), other);
	}).join();
	if (other == 0)
		GTEST_SKIP() << "no right to make a network namespace";
	EXPECT_EQ(there, other);
	EXPECT_EQ(this_netns_inode(), home);
}

TEST(whose, established_connections_of_a_namespace)
{
	const std::string text = "Ip: Forwarding DefaultTTL\nIp: 2 64\n"
				 "Tcp: RtoAlgorithm MaxConn CurrEstab InSegs\nTcp: 1 -1 17 400\nUdp: InDatagrams\nUdp: 7\n";

	EXPECT_EQ(parse_established(text), 17U);
	for (std::size_t n = 0; n < text.find(" 17 "); n++)
		EXPECT_FALSE(parse_established(text.substr(0, n))) << n;
	EXPECT_FALSE(parse_established("Tcp: CurrEstab\nTcp: many\n"));
	EXPECT_TRUE(established_here());
}

TEST(whose, a_single_flow_is_what_the_list_says)
{
	const Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	sockaddr_in at{};
	socklen_t size = sizeof(at);

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);
	ASSERT_EQ(listen(server.get(), 1), 0);
	ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr *>(&at), &size), 0);
	ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);

	auto lister = DiagClient::open();
	auto getter = DiagGetter::open();

	ASSERT_TRUE(lister && getter);
	const auto list = lister->dump(states_connected);

	ASSERT_TRUE(list);
	std::vector<FlowId> ids;

	for (const Flow &f : list->flows)
		if (f.remote.port == ntohs(at.sin_port))
			ids.push_back({f.local, f.remote, f.cookie});
	ASSERT_EQ(ids.size(), 1U);
	std::vector<Flow> got;
	DiagStatus status;
	const auto visit = [&](const Flow &f) { got.push_back(f); };

	// More than fit into one question.
	const std::vector<FlowId> many(100, ids[0]);
	const auto all = getter->get(many, visit, status);

	ASSERT_TRUE(all) << all.error().text();
	EXPECT_TRUE(*all);
	ASSERT_EQ(got.size(), 100U);
	EXPECT_EQ(got[99].cookie, ids[0].cookie);
	EXPECT_FALSE(got[99].cc.empty());
	EXPECT_TRUE(got[99].tcp);
	// Another flow at the same addresses, and one that is nowhere.
	got.clear();
	ids.push_back({ids[0].local, ids[0].remote, ids[0].cookie + 1});
	ids.push_back({ids[0].local, {ids[0].remote.address, 1}, ids[0].cookie});
	EXPECT_FALSE(*getter->get(ids, visit, status));
	EXPECT_EQ(got.size(), 1U);
}

// --- At their end -----------------------------------------------------------------------

namespace {

FlowSet look(FlowTable &table, std::int64_t now_ns, std::initializer_list<std::uint64_t> cookies, std::uint64_t bytes)
{
	const IfaceMap ifaces;

	table.begin(now_ns, ifaces);
	for (const std::uint64_t cookie : cookies) {
		Flow f;

		f.cookie = cookie;
		f.cc = cookie < 100 ? "swift" : "cubic";
		f.remote = {*Address::parse("10.0.0.2"), 80};
		f.tcp.emplace();
		f.tcp->bytes_acked = bytes;
		table.add(f);
	}
	return *table.end();
}

EndedFlow ended(std::uint64_t cookie, std::uint64_t bytes, const char *remote = "10.0.0.2")
{
	return {cookie, {*Address::parse("127.0.0.1"), 1000}, {*Address::parse(remote), 80}, false, bytes, 8000, 5, 0};
}

} // namespace

TEST(ended, flows_that_were_seen_count_with_what_is_new)
{
	FlowTableOptions options{{"swift"}, {}, 256};
	options.remember_passed_over = true;
	FlowTable table(options);
	EndedBook book;

	// One that ends later than it is missed, one that was seen alive, one that is not collected, a short one.
	EXPECT_TRUE(book.add(look(table, second, {1, 2, 100}, 1000), {}, options, {}).empty());
	const auto counts = book.add(look(table, 2 * second, {2}, 1500), {ended(1, 1200), ended(2, 1700), ended(100, 9), ended(3, 50)},
				     options, {});

	ASSERT_EQ(counts.size(), 3U);
	EXPECT_EQ(counts[0].labels, (FlowGroup{"10.0.0.0/24", "swift", "unknown"}));
	EXPECT_EQ(counts[0].bytes, 1200U);
	EXPECT_EQ(counts[0].bytes_new, 200U);
	EXPECT_TRUE(counts[0].seen);
	EXPECT_EQ(counts[1].bytes_new, 200U);
	EXPECT_EQ(counts[2].labels, (FlowGroup{"10.0.0.0/24", "unknown", "lo"}));
	EXPECT_EQ(counts[2].bytes_new, 50U);
	EXPECT_FALSE(counts[2].seen);
	// One that its own host has reset has lost its numbers.
	book.add(look(table, 3 * second, {4}, 900), {}, options, {});
	const auto reset = book.add(look(table, 4 * second, {}, 0), {ended(4, 0)}, options, {});

	EXPECT_EQ(reset.at(0).bytes, 900U);
	EXPECT_EQ(reset.at(0).bytes_new, 0U);
	// Each once.
	EXPECT_FALSE(book.add(look(table, 5 * second, {}, 0), {ended(1, 1200)}, options, {})[0].seen);
}

TEST(ended, one_that_is_closed_long_after_it_was_missed_is_no_short_one)
{
	FlowTableOptions options{{"*"}, {}, 256};
	FlowTable table(options);
	EndedBook book;

	book.add(look(table, second, {1}, 1000), {}, options, {});
	for (int i = 2; i < 100; i++)
		book.add(look(table, i * second, {}, 0), {}, options, {});
	EXPECT_TRUE(book.add(look(table, 100 * second, {}, 0), {ended(1, 1000)}, options, {})[0].seen);
}

TEST(ended, unseen_flows_have_no_more_labels_than_allowed)
{
	FlowTableOptions options{{"*"}, {}, 3};
	FlowTable table(options);
	EndedBook book;
	std::vector<EndedFlow> many;
	std::set<FlowGroup> groups;

	for (unsigned i = 0; i < 200; i++)
		many.push_back(ended(i, 1, ("10.0." + std::to_string(i) + ".1").c_str()));
	for (const EndedCount &c : book.add(look(table, second, {}, 0), many, options, {}))
		groups.insert(c.labels);
	EXPECT_EQ(groups.size(), 4U);
	EXPECT_TRUE(groups.contains({"other", "unknown", "other"}));
}

TEST(ended, listeners_and_what_was_never_connected_do_not_count)
{
	swift_test::DumpBuilder b;
	std::vector<EndedFlow> out;

	b.socket("10.0.0.1", 1000, "10.0.0.2", 80, 7).info(100, 90, 10, 0);
	b.socket("0.0.0.0", 80, "0.0.0.0", 0, 7).info(0, 0, 10, 0);
	b.socket("::", 80, "::", 0, 7).info(0, 0, 10, 0);
	b.socket("10.0.0.1", 1001, "10.0.0.2", 80, 7); // without tcp_info
	b.socket("0.0.0.0", 1002, "10.0.0.2", 0, 7).info(0, 0, 10, 0); // reset by its own host
	parse_ended(b.bytes(), true, out);
	ASSERT_EQ(out.size(), 2U);
	EXPECT_EQ(out[0].local.port, 1000);
	EXPECT_TRUE(out[0].other_netns);
}

TEST(ended, the_live_kernel_tells_of_a_connection)
{
	auto listening = EndedFlows::start();

	ASSERT_TRUE(listening) << listening.error().text();
	const Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	sockaddr_in at{};
	socklen_t size = sizeof(at);

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);
	ASSERT_EQ(listen(server.get(), 1), 0);
	ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr *>(&at), &size), 0);
	{
		Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

		ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);
		const Fd accepted(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
		char buffer[4000]{};

		ASSERT_EQ(send(client.get(), buffer, sizeof(buffer), 0), static_cast<ssize_t>(sizeof(buffer)));
		ASSERT_EQ(recv(accepted.get(), buffer, sizeof(buffer), MSG_WAITALL), static_cast<ssize_t>(sizeof(buffer)));
	}
	std::vector<EndedFlow> mine;

	while (mine.size() < 2) // waits on state: others' flows end as well
		for (const EndedFlow &f : (*listening)->take())
			if (f.remote.port == ntohs(at.sin_port) || f.local.port == ntohs(at.sin_port))
				mine.push_back(f);
	const EndedFlow &sender = mine[0].bytes_acked > mine[1].bytes_acked ? mine[0] : mine[1];

	EXPECT_EQ(sender.remote.port, ntohs(at.sin_port));
	EXPECT_GE(sender.bytes_acked, 4000U);
	EXPECT_LE(sender.bytes_acked, 4002U); // its SYN and FIN
	EXPECT_GE(sender.segments_sent, 1U);
}
