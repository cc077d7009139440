// SPDX-License-Identifier: MIT
// The real binary on the real kernel, with a congestion control of the test's own: as root,
// where the kernel has BTF; in mount and process namespaces of its own, with a bpffs of its own.
// Afterwards the kernel is as it was, whatever happened in between.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

std::string slurp(const std::string &path)
{
	std::ifstream file(path, std::ios::binary);

	return {std::istreambuf_iterator<char>(file), {}};
}

// A script of a shell in which $S is swiftctl, and bpffs an empty one.
class BpfNative : public testing::Test {
protected:
	void SetUp() override
	{
		if (geteuid() != 0 || access("/sys/kernel/btf/vmlinux", R_OK) != 0)
			GTEST_SKIP() << "needs root and a kernel with BTF";
		if (std::string_view(BPF_FIXTURES).empty())
			GTEST_SKIP() << "needs clang";
		if (available().find("swiftctl_test") != std::string::npos)
			GTEST_SKIP() << "another run of this test has the kernel";
		if (shell("true") != 0)
			GTEST_SKIP() << "cannot mount a bpffs: " << out_;
		before_ = available() + slurp(default_path);
	}
	void TearDown() override
	{
		if (before_.empty())
			return;
		// Tracing links and maps go when the kernel gets to it, names at once.
		EXPECT_EQ(available() + slurp(default_path), before_);
		EXPECT_FALSE(std::filesystem::exists("/var/lib/tcp_swift/bpf-swiftctl_test.default"));
	}
	int shell(const std::string &script)
	{
		const std::string command =
			"exec unshare -m -p -f --mount-proc --propagation private bash -c 'set -u; S=" SWIFTCTL
			"; N=swiftctl_test; "
			"P=/sys/fs/bpf/tcp_swift; cd " BPF_FIXTURES " || exit 9; "
			"mount -t bpf bpf /sys/fs/bpf || exit 9; " +
			script + "' 2>&1 </dev/null";
		FILE *raw = popen(command.c_str(), "r");
		std::array<char, 4096> buf;

		out_.clear();
		while (const std::size_t n = fread(buf.data(), 1, buf.size(), raw))
			out_.append(buf.data(), n);
		const int status = pclose(raw);

		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	static std::string available() { return slurp("/proc/sys/net/ipv4/tcp_available_congestion_control"); }

	static constexpr const char *default_path = "/proc/sys/net/ipv4/tcp_congestion_control";
	static constexpr const char *others_may_not =
		"only the initial network namespace's default may be one that is restricted";

	static bool may_be_the_default() { return std::filesystem::exists("/proc/sys/net/core/default_qdisc"); }
	std::string out_;
	std::string before_;
};

} // namespace

TEST_F(BpfNative, load_list_set_swap_unload)
{
	for (const char *how : {"", "--plain"}) {
		ASSERT_EQ(shell(std::string("$S bpf load $N --object v1.o --set base_target_ns=60000 ") + how +
				" && $S bpf set $N ai_milli=500 && "
				"$S bpf set $N --prefix 10.1.0.0/16 base_target_ns=120000 && "
				"$S bpf swap $N --object v2.o && $S bpf list --json >list.json && "
				"$S bpf get $N --json >get.json && $S bpf unload $N && ! test -e $P"),
			  0)
			<< out_;
		const auto list = nlohmann::json::parse(slurp(BPF_FIXTURES "/list.json"));
		const auto &one = list["loaded"].at(0);
		const bool links = list["kernel"]["struct_ops_links"];

		EXPECT_EQ(one["name"], "swiftctl_test");
		EXPECT_EQ(one["registration"], *how || !links ? "plain" : "link");
		EXPECT_EQ(one["programs"].size(), 6U);
		EXPECT_EQ(one["profiles"], 1);
		for (const auto &p : one["programs"])
			EXPECT_GT(p["verified_insns"], 0) << p;
		EXPECT_EQ(out_.find("atomically") != std::string::npos, links && !*how) << out_;

		const auto get = nlohmann::json::parse(slurp(BPF_FIXTURES "/get.json"));

		EXPECT_EQ(get["tunables"][0]["value"], 60000);
		EXPECT_EQ(get["profiles"][0]["values"]["ai_milli"], 500);
		EXPECT_EQ(get["differs"], false);
	}
}

TEST_F(BpfNative, what_the_kernel_refuses_leaves_nothing)
{
	const char *tries[] = {"broken.o", "incomplete.o", "bpf_fixture.bpf.c", "none.o",
			       "v1.o --cgroup /proc", "v1.o --cgroup /nowhere", "v1.o --plain --cgroup /proc",
			       "incomplete.o --plain"};

	for (const char *arguments : tries) {
		EXPECT_EQ(shell(std::string("$S bpf load $N --object ") + arguments + "; s=$?; test -e $P && exit 5; exit $s"), 1)
			<< arguments << ": " << out_;
		EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 1) << arguments << ": " << out_;
		EXPECT_EQ(available() + slurp(default_path), before_) << arguments;
	}
	ASSERT_EQ(shell("$S bpf load $N --object broken.o; $S bpf load $N --object broken.o --verbose"), 1);
	EXPECT_NE(out_.find("the verifier refused program fix_ssthresh"), std::string::npos) << out_;
	EXPECT_NE(out_.find("map_value_or_null"), std::string::npos) << out_;
	EXPECT_NE(out_.find("processed "), std::string::npos) << out_;
}

TEST_F(BpfNative, names_that_are_taken)
{
	// By a BPF program that is not pinned where ours are.
	EXPECT_EQ(shell("$S bpf load $N --object v1.o --plain || exit 7; mv $P/$N $P-elsewhere; rmdir $P; "
			"$S bpf load $N --object v1.o; s=$?; $S bpf unload $N; mkdir $P; mv $P-elsewhere $P/$N; "
			"$S bpf unload $N || exit 8; exit $s"),
		  1)
		<< out_;
	EXPECT_NE(out_.find("taken by a BPF program that swiftctl did not load (struct_ops map id "), std::string::npos)
		<< out_;
	EXPECT_NE(out_.find("not loaded by swiftctl"), std::string::npos) << out_;
	EXPECT_EQ(shell("$S bpf load reno --object v1.o"), 1);
	EXPECT_NE(out_.find("taken by a module, or the kernel itself"), std::string::npos) << out_;
}

TEST_F(BpfNative, a_swap_that_the_kernel_refuses_keeps_the_old_one)
{
	for (const char *how : {"", "--plain"})
		EXPECT_EQ(shell(std::string("$S bpf load $N --object v1.o ") + how +
				" || exit 7; for f in broken.o incomplete.o; do $S bpf swap $N --object $f && exit 6; "
				"grep -q $N /proc/sys/net/ipv4/tcp_available_congestion_control || exit 5; done; "
				"$S bpf list; $S bpf swap $N --object v2.o && $S bpf unload $N"),
			  0)
			<< out_;
}

TEST_F(BpfNative, the_default_comes_back_and_flows_go_on)
{
	if (!may_be_the_default())
		GTEST_SKIP() << others_may_not;
	// A connection that began under it is counted, told of, and goes on after it.
	EXPECT_EQ(shell("$S bpf load $N --object v1.o --default || exit 7; "
			"test $(cat /proc/sys/net/ipv4/tcp_congestion_control) = $N || exit 6; "
			"exec python3 - $S <<EOF\n"
			"import json, socket, subprocess, sys\n"
			"s = socket.create_server((\"127.0.0.1\", 0))\n"
			"c = socket.create_connection(s.getsockname())\n"
			"a = s.accept()[0]\n"
			"run = lambda *w: subprocess.run([sys.argv[1], \"bpf\", *w], capture_output=True, text=True)\n"
			"flows = json.loads(run(\"list\", \"--json\").stdout)[\"loaded\"][0][\"flows\"]\n"
			"assert flows >= 2, flows\n"
			"r = run(\"unload\", \"swiftctl_test\")\n"
			"assert r.returncode == 0, r.stderr\n"
			"assert \"that use it until they close: \" in r.stderr, r.stderr\n"
			"c.sendall(b\"x\" * 1000)\n"
			"assert len(a.recv(1000, socket.MSG_WAITALL)) == 1000\n"
			"EOF"),
		  0)
		<< out_;
}

TEST_F(BpfNative, flows_shows_what_is_in_the_socket_storage)
{
	EXPECT_EQ(shell("$S bpf load $N --object v1.o || exit 7; "
			"exec python3 - $S <<EOF\n"
			"import json, socket, subprocess, sys\n"
			"s = socket.create_server((\"127.0.0.1\", 0))\n"
			"def connect(cc):\n"
			"    c = socket.socket()\n"
			"    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)\n"
			"    c.connect(s.getsockname())\n"
			"    return c\n"
			"ours, other = connect(b\"swiftctl_test\"), connect(b\"reno\")\n"
			"def flows():\n"
			"    r = subprocess.run([sys.argv[1], \"flows\", \"--json\"], capture_output=True, text=True)\n"
			"    return json.loads(r.stdout)[\"flows\"]\n"
			"mine = lambda: [f for f in flows() if f[\"remote_port\"] == s.getsockname()[1]]\n"
			"one, = mine()\n"
			"want = dict(cc=\"swiftctl_test\", fabric_ns=40000, target_ns=1000, fcwnd=3.0, ecwnd=5.0,\n"
			"            limit=\"fabric\", local_stamp=\"software\", echo_stamp=\"none\")\n"
			"assert {k: one[k] for k in want} == want, one\n"
			"assert one[\"local_port\"] == ours.getsockname()[1], one\n"
			"def swap(to):\n"
			"    subprocess.run([sys.argv[1], \"bpf\", \"swap\", \"swiftctl_test\", \"--object\", to], check=True)\n"
			"swap(\"v2.o\")\n"
			"later = connect(b\"swiftctl_test\")\n"
			"targets = sorted((f[\"local_port\"] == later.getsockname()[1], f[\"target_ns\"]) for f in mine())\n"
			"assert targets == [(False, 1000), (True, 2000)], targets\n"
			"subprocess.run([sys.argv[1], \"bpf\", \"unload\", \"swiftctl_test\"], check=True)\n"
			"EOF"),
		  0)
		<< out_;
}

TEST_F(BpfNative, the_default_is_the_new_one_after_a_swap)
{
	if (!may_be_the_default())
		GTEST_SKIP() << others_may_not;
	// By the target that each version writes.
	for (const char *how : {"", "--plain"})
		EXPECT_EQ(shell(std::string("$S bpf load $N --object v1.o --default ") + how +
				" && $S bpf swap $N --object v2.o || exit 7; "
				"exec python3 - $S <<EOF\n"
				"import json, socket, subprocess, sys\n"
				"s = socket.create_server((\"127.0.0.1\", 0))\n"
				"c = socket.create_connection(s.getsockname())\n"
				"r = subprocess.run([sys.argv[1], \"flows\", \"--json\"], capture_output=True, text=True)\n"
				"targets = [f[\"target_ns\"] for f in json.loads(r.stdout)[\"flows\"]\n"
				"           if f[\"remote_port\"] == s.getsockname()[1]]\n"
				"subprocess.run([sys.argv[1], \"bpf\", \"unload\", \"swiftctl_test\"], check=True)\n"
				"assert targets == [2000], targets\n"
				"EOF"),
			  0)
			<< how << out_;
}

TEST_F(BpfNative, a_killed_loader_is_mended)
{
	// At any moment of its life: by time, because nothing else is the same each time.
	for (const char *how : {"", "--plain"})
		EXPECT_EQ(shell(std::string("for ms in 002 010 020 030 040 050 060 080 100 150 200; do "
					    "$S bpf load $N --object v1.o ") +
				how + " & sleep 0.$ms; kill -KILL $! 2>/dev/null; "
				      "wait $!; " // it may be in a system call, and holds the lock
				      "$S bpf unload $N; "
				      "rmdir $P 2>/dev/null; test -e $P && exit 6; "
				      "for i in $(seq 2000); do "
				      "grep -q $N /proc/sys/net/ipv4/tcp_available_congestion_control || break; "
				      "sleep 0.01; done; "
				      "grep -q $N /proc/sys/net/ipv4/tcp_available_congestion_control && exit 5; "
				      "done; exit 0"),
			  0)
			<< how << out_;
}

TEST_F(BpfNative, objects_are_inside_and_bpffs_is_mounted)
{
	if (available().find("bpf_gcn") != std::string::npos)
		GTEST_SKIP() << "another test has bpf_gcn";
	EXPECT_EQ(shell("cd /; while umount /sys/fs/bpf 2>/dev/null; do :; done; "
			"$S bpf load bpf_gcn && test -e $P/bpf_gcn/ops && $S bpf list && $S bpf swap bpf_gcn && "
			"$S bpf unload bpf_gcn && $S bpf load telemetry && $S bpf unload telemetry"),
		  0)
		<< out_;
	EXPECT_NE(out_.find("bpffs was not mounted: it is now"), std::string::npos) << out_;
	EXPECT_NE(out_.find("the built-in bpf_gcn"), std::string::npos) << out_;
}

// `ip netns exec` gives a /sys without bpffs; containers have mount and process namespaces of their own.
TEST_F(BpfNative, other_namespaces_see_what_is_loaded)
{
	EXPECT_EQ(shell("$S bpf load $N --object v1.o || exit 7; ip link set lo up; "
			"exec python3 - $S <<EOF\n"
			"import json, socket, subprocess, sys\n"
			"s = socket.create_server((\"127.0.0.1\", 0))\n"
			"c = socket.socket()\n"
			"c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b\"swiftctl_test\")\n"
			"c.connect(s.getsockname())\n"
			"unpin = \"while umount /sys/fs/bpf 2>/dev/null; do :; done; exec \"\n"
			"def run(how, *words):\n"
			"    r = subprocess.run([\"unshare\", *how, \"sh\", \"-c\", unpin + \" \".join((sys.argv[1], *words))],\n"
			"                       capture_output=True, text=True)\n"
			"    assert r.returncode == 0, r.stderr\n"
			"    return json.loads(r.stdout) if \"--json\" in words else r.stdout\n"
			"for how, pinned in ((\"-m\",), True), ((\"-m\", \"-p\", \"-f\", \"--mount-proc\"), False):\n"
			"    one, = [f for f in run(how, \"flows\", \"--json\")[\"flows\"] if f[\"cc\"] == \"swiftctl_test\"\n"
			"            and f[\"remote_port\"] == s.getsockname()[1]]\n"
			"    assert one[\"fabric_ns\"] == 40000, one\n"
			"    v, = run(how, \"bpf\", \"list\", \"--json\")[\"loaded\"]\n"
			"    assert (v[\"name\"], v[\"law\"], v[\"pinned\"]) == (\"swiftctl_test\", \"swift\", pinned), v\n"
			"    assert v[\"flows\"] >= 1 and v[\"programs\"], v\n"
			"# Where pid 1 is, everything goes on as before.\n"
			"run((\"-m\",), \"bpf\", \"set\", \"swiftctl_test\", \"ai_milli=7\")\n"
			"run((\"-m\",), \"bpf\", \"unload\", \"swiftctl_test\")\n"
			"EOF"),
		  0)
		<< out_;
}

TEST_F(BpfNative, without_root_one_line)
{
	if (shell("setpriv --reuid 65534 --clear-groups test -x $S") != 0)
		return; // it cannot be run as another user from where it is
	EXPECT_EQ(shell("setpriv --reuid 65534 --clear-groups $S bpf load $N --object v1.o"), 1);
	EXPECT_EQ(out_, "swiftctl bpf: needs root (--dry-run does not)\n");
	EXPECT_EQ(shell("setpriv --reuid 65534 --clear-groups $S bpf list"), 1);
}
