// SPDX-License-Identifier: MIT
// The real binary, as a user runs it: exit status, one line of complaint, screens.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "dump_builder.h"

namespace {

struct Ran {
	int status = -1;
	std::string out;
	std::string err;
};

std::string content_of(const std::filesystem::path &path)
{
	std::ifstream file(path, std::ios::binary);

	return {std::istreambuf_iterator<char>(file), {}};
}

class Cli : public testing::Test {
protected:
	void SetUp() override
	{
		dir_ = std::filesystem::temp_directory_path() /
		       ("swiftctl-cli-" + std::to_string(getpid()));
		std::filesystem::create_directories(dir_ / "loaded/sys/module/tcp_swift");
		std::filesystem::create_directories(dir_ / "empty");

		const auto dump = swift_test::six_flows();
		std::ofstream file(dir_ / "six.bin", std::ios::binary);

		file.write(reinterpret_cast<const char *>(dump.bytes().data()),
			   static_cast<std::streamsize>(dump.bytes().size()));
		swift_test::DumpBuilder none;

		none.done();
		std::ofstream nothing(dir_ / "none.bin", std::ios::binary);

		nothing.write(reinterpret_cast<const char *>(none.bytes().data()),
			      static_cast<std::streamsize>(none.bytes().size()));
	}
	void TearDown() override { std::filesystem::remove_all(dir_); }

	Ran shell(const std::string &command) const
	{
		Ran ran;
		const std::string err = (dir_ / "stderr").string();
		FILE *raw = popen(("{ " + command + "; } 2>" + err + " </dev/null").c_str(), "r");
		std::array<char, 4096> buf;

		while (const std::size_t n = fread(buf.data(), 1, buf.size(), raw))
			ran.out.append(buf.data(), n);
		const int status = pclose(raw);

		ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		ran.err = content_of(err);
		return ran;
	}
	Ran swiftctl(const std::string &arguments) const
	{
		return shell(SWIFTCTL " " + arguments);
	}
	std::string loaded() const { return " --root " + (dir_ / "loaded").string(); }
	std::string empty() const { return " --root " + (dir_ / "empty").string(); }
	std::string six() const { return " --dump " + (dir_ / "six.bin").string(); }
	std::string none() const { return " --dump " + (dir_ / "none.bin").string(); }

	std::filesystem::path dir_;
};

std::ptrdiff_t lines(const std::string &s)
{
	return std::count(s.begin(), s.end(), '\n');
}

} // namespace

TEST_F(Cli, wrong_usage_is_one_line_and_2)
{
	for (const char *arguments :
	     {"", "''", "enable --module= --dry-run", "tune --bpf= --undo", "tune --bpf '' --undo", "bpf set x --prefix '' ai_milli=1", "ab h --rr-every ''",
	      "flwos", "--bogus", "flows --bogus", "flows extra", "flows --sort colour", "flows --top",
	      "flows --top x", "flows --watch 0", "flows --dst 10.0.0.0/40", "enable --set x=1", "probe",
	      "probe --size 1 h", "probe --respond h", "probe --stamp h", "probe h:0",
	      "enable --set ai_milli=0", "enable --qdisc cake", "enable --default --no-default", "doctor --target-ns 5us", "doctor --peer :1",
	      "disable now", "top now", "tune --dst 10.0.0.0/8", "tune --interval 0", "tune --undo --apply", "flows doctor", "clock bogus", "clock --bogus", "clock run --interval 5",
	      "clock run --interval x", "clock --iface eth0 restore", "clock run --watch", "clock --watch run", "clock --watch 0",
	      "bpf bogus", "bpf load", "bpf load a b", "bpf load a/b --dry-run", "bpf swap", "bpf set", "bpf get",
	      "bpf unload", "bpf set bpf_swift", "bpf set bpf_swift --prefix 10.0.0.1/8 ai_milli=1",
	      "bpf set bpf_swift --prefix 10.0.0.0/33 ai_milli=1", "bpf set bpf_swift --delete", "bpf list --bogus",
	      "clock show run", "credit now", "credit --peer h", "credit --top 0", "credit --watch 0", "clock run --iface", "clock read --dry-run", "ab", "ab h", "ab h --cc cubic,cubic --yes",
	      "ab h --runs 0 --yes", "ab -- -h --yes", "ab h --client", "ab h --json x --html ./x --yes", "ab h --rr 1 --rr-every 600 --duration 1 --yes",
	      "report", "report x --html", "report x --html y --markdown y"}) {
		const Ran ran = swiftctl(arguments);

		EXPECT_EQ(ran.status, 2) << arguments << ": " << ran.err;
		EXPECT_EQ(lines(ran.err), 1) << arguments << ": " << ran.err;
		EXPECT_EQ(ran.out, "") << arguments;
		EXPECT_NE(ran.err.find("--help"), std::string::npos) << arguments;
	}
}

TEST_F(Cli, the_first_unknown_option_is_named_and_not_its_value)
{
	EXPECT_EQ(swiftctl("flows --tpo 3 --bogus").err, "swiftctl flows: unknown option --tpo; see swiftctl flows --help\n");
	EXPECT_EQ(swiftctl("pods --wtach 3").err, "swiftctl pods: unknown option --wtach; see swiftctl pods --help\n");
	EXPECT_EQ(swiftctl("ab --cc").err, "swiftctl ab: --cc: a value is missing (NAME,...); see swiftctl ab --help\n");
	EXPECT_EQ(swiftctl("enable --module= --dry-run").err, "swiftctl enable: --module without a value; see swiftctl enable --help\n");
	EXPECT_EQ(swiftctl("tune --undo --bpf ''").err, "swiftctl tune: an empty word after --bpf (allowed: none); see swiftctl tune --help\n");
	EXPECT_EQ(swiftctl("tune --min-us 100 --max-us 10").err,
		  "swiftctl tune: --min-us: '100' (allowed: at most --max-us, 10); see swiftctl tune --help\n");
	EXPECT_EQ(swiftctl("flows extra").err, "swiftctl flows: unexpected argument extra; see swiftctl flows --help\n");
}

TEST_F(Cli, what_cannot_be_said_is_complained_of)
{
	const Ran ran = shell(SWIFTCTL " enable --dry-run" + loaded() + " >/dev/full");

	EXPECT_EQ(ran.status, 1);
	EXPECT_EQ(ran.err, "swiftctl enable: cannot write to the standard output; nothing was changed\n");
}

TEST_F(Cli, a_full_disk_is_complained_of_by_every_verb)
{
	std::ofstream(dir_ / "ab.json") << R"({"runs": [{"cc": "swift", "goodput_bps": 1}]})";
	for (const std::string &arguments :
	     {"flows" + loaded() + six(), "flows --json" + loaded() + six(), "flows --watch 0.1" + loaded() + six(), "doctor" + empty(),
	      std::string("top --once --interval 0.1"), "report " + (dir_ / "ab.json").string(), "clock restore" + empty(),
	      std::string("ab h --dry-run"), std::string("flows --help"), std::string("--version")}) {
		const Ran ran = shell(SWIFTCTL " " + arguments + " >/dev/full");
		const std::string verb = arguments.starts_with("-") ? "" : " " + arguments.substr(0, arguments.find(' '));

		EXPECT_EQ(ran.status, 1) << arguments;
		EXPECT_EQ(ran.err, "swiftctl" + verb + ": cannot write to the standard output: No space left on device\n") << arguments;
	}
}

TEST_F(Cli, a_reader_that_goes_is_in_the_right)
{
	const std::string status = (dir_ / "status").string();
	const Ran ran = shell("{ " SWIFTCTL " flows --watch 0.1 --json" + loaded() + six() + "; echo $? >" + status +
			      "; } | head -n 1 | wc -l; cat " + status);

	EXPECT_EQ(ran.out, "1\n1\n");
	EXPECT_EQ(ran.err, "");
}

// A pipe that is full, of which nobody reads: each of the signals ends what writes there.
TEST_F(Cli, a_reader_that_stalls_does_not_keep_it_from_stopping)
{
	std::ofstream(dir_ / "stall.py") << R"(import fcntl, os, select, signal, subprocess, sys
r, w = os.pipe()
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
p = subprocess.Popen(sys.argv[2:], stdout=w, stdin=subprocess.DEVNULL)
while select.select([], [w], [], 0.02)[1]:
    assert p.poll() is None
p.send_signal(int(sys.argv[1]))
try:
    p.wait(timeout=60)
except subprocess.TimeoutExpired:
    p.kill()
    raise
)";
	for (const int signal : {SIGTERM, SIGINT, SIGHUP})
		for (const std::string &arguments :
		     {"flows --json --watch 0.1" + loaded() + six(),
		      std::string("probe --json --watch 0.1 127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4")}) {
			const Ran ran = shell("ASAN_OPTIONS=detect_leaks=0 python3 " + (dir_ / "stall.py").string() + " " +
					      std::to_string(signal) + " " SWIFTCTL " " + arguments);

			EXPECT_EQ(ran.status, 0) << arguments << ran.err;
		}
}

TEST_F(Cli, help_and_version)
{
	EXPECT_EQ(swiftctl("--version").out, "swiftctl 0.1.0\n");
	for (const char *arguments :
	     {"--help", "-h", "flows --help", "enable --help", "disable --help", "doctor --help", "probe --help",
	      "bpf --help", "bpf load --help", "bpf unload --help", "bpf list --help", "bpf set --help",
	      "bpf get --help", "bpf swap --help", "credit --help", "clock --help", "clock show --help", "clock run --help", "clock read --help", "clock restore --help",
	      "ab --help", "report --help"}) {
		const Ran ran = swiftctl(arguments);

		EXPECT_EQ(ran.status, 0) << arguments;
		EXPECT_LE(lines(ran.out), std::string_view(arguments) == "ab --help" ? 70 : 37) << arguments; // ab is two
		EXPECT_EQ(ran.err, "") << arguments;
		EXPECT_EQ(ran.out.find("--root"), std::string::npos) << arguments;
		// Fits a terminal of 100 columns.
		for (std::size_t at = 0; at < ran.out.size();) {
			const std::size_t end = std::min(ran.out.find('\n', at), ran.out.size());

			EXPECT_LE(end - at, 100U) << ran.out.substr(at, end - at);
			at = end + 1;
		}
	}
}

TEST_F(Cli, flows_without_the_module_is_1_and_says_what_to_do)
{
	const Ran ran = swiftctl("flows" + empty() + none());

	EXPECT_EQ(ran.status, 1);
	EXPECT_EQ(lines(ran.err), 1);
	EXPECT_NE(ran.err.find("the module tcp_swift is not loaded"), std::string::npos);
	EXPECT_EQ(swiftctl("flows --json" + empty() + none()).status, 1);
}

TEST_F(Cli, flows_of_an_idle_host_is_0)
{
	const Ran ran = swiftctl("flows" + loaded() + none());

	EXPECT_EQ(ran.status, 0);
	EXPECT_EQ(ran.out, "no swift flows\n");
}

TEST_F(Cli, flows_against_the_live_kernel)
{
	const Ran ran = swiftctl("flows" + loaded());

	EXPECT_EQ(ran.status, 0) << ran.err;
}

TEST_F(Cli, flows_screen)
{
	const Ran ran = swiftctl("flows --sort fabric:desc" + loaded() + six());

	EXPECT_EQ(ran.status, 0);
	EXPECT_EQ(lines(ran.out), 6);
	EXPECT_NE(ran.out.find("1 more guarded"), std::string::npos);
	EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
	EXPECT_LT(ran.out.find("10.1.0.10:443"), ran.out.find("10.1.0.9:443"));
	EXPECT_NE(swiftctl("flows --all" + loaded() + six()).out.find("guarded"), std::string::npos);
	EXPECT_EQ(swiftctl("flows --json" + loaded() + six()).out.find("{\n  \"schema\": 1"), 0U);
}

TEST_F(Cli, watch_prints_blocks_and_stops_at_sigint)
{
	// Once it has printed that many lines it gets two signals: both must be taken in peace.
	// LeakSanitizer is not up to that: a signal during its search at the end hangs it.
	const auto interrupted = [&](const std::string &arguments, int least) {
		const std::string out = (dir_ / "out").string();

		std::filesystem::remove(out); // lines of the run before are none of this one's
		Ran ran = shell("ASAN_OPTIONS=detect_leaks=0 env --default-signal=INT " SWIFTCTL " " + arguments + loaded() +
				six() + " >" + out + " & until [ $(wc -l <" + out + ") -ge " + std::to_string(least) +
				" ]; do kill -0 $! || exit; sleep 0.02; done; kill -INT $!; kill -INT $!; wait $!");

		ran.out = content_of(out);
		return ran;
	};
	const Ran text = interrupted("flows --watch 0.2", 14);

	EXPECT_EQ(text.status, 0);
	EXPECT_NE(text.out.find("4 swift flows"), std::string::npos);
	EXPECT_GE(lines(text.out), 14);

	const Ran json = interrupted("flows --json --watch 0.2", 2);

	EXPECT_EQ(json.status, 0);
	EXPECT_GE(lines(json.out), 2);
	EXPECT_EQ(json.out.find("{\"schema\":1"), 0U);
}

// A sender that a full receive window has blocked since the look before, and not before that.
TEST_F(Cli, flows_that_are_watched_are_judged_by_what_has_changed)
{
	const auto write = [&](const char *name, std::uint64_t busy_us, std::uint64_t rwnd_limited_us) {
		swift_test::DumpBuilder dump;
		tcp_info i{};

		i.tcpi_unacked = 5;
		i.tcpi_notsent_bytes = 10000;
		i.tcpi_busy_time = busy_us;
		i.tcpi_rwnd_limited = rwnd_limited_us;
		dump.socket("10.0.0.1", 1, "10.0.0.2", 2).attribute(INET_DIAG_INFO, &i, sizeof(i)).cong("cubic").done();
		std::ofstream(dir_ / name, std::ios::binary)
			.write(reinterpret_cast<const char *>(dump.bytes().data()), static_cast<std::streamsize>(dump.bytes().size()));
	};
	const std::string now = (dir_ / "now.bin").string(), later = (dir_ / "later.bin").string();

	write("now.bin", 20'000'000, 0);
	write("later.bin", 28'000'000, 7'900'000);
	EXPECT_EQ(swiftctl("flows --all --json" + loaded() + " --dump " + later).out.find("held_by"), std::string::npos);
	const Ran ran = shell("timeout 20 " SWIFTCTL " flows --all --watch 0.2 --json" + loaded() + " --dump " + now +
			      " | { read -r first; echo \"$first\"; mv " + later + " " + now +
			      "; while read -r next; do case $next in *held_by*) echo \"$next\"; break ;; esac; done; }");

	EXPECT_EQ(lines(ran.out), 2) << ran.out;
	EXPECT_GT(ran.out.find(R"("held_by":"receiver")"), ran.out.find('\n')) << ran.out;
	EXPECT_NE(ran.out.find(R"("held_by":"receiver")"), std::string::npos);
}

TEST_F(Cli, a_terminal_gets_colours_unless_told_not_to)
{
	if (shell("command -v script").status != 0)
		GTEST_SKIP() << "script(1) is not installed";
	const std::string command = SWIFTCTL " flows" + loaded() + six();

	EXPECT_NE(shell("TERM=xterm script -qec '" + command + "' /dev/null").out.find("\x1b[1m"),
		  std::string::npos);
	EXPECT_EQ(shell("TERM=xterm NO_COLOR=1 script -qec '" + command + "' /dev/null").out.find('\x1b'),
		  std::string::npos);
}

TEST_F(Cli, netns_that_is_not_there)
{
	const Ran ran = swiftctl("flows --netns nowhere" + loaded());

	EXPECT_EQ(ran.status, 1);
	EXPECT_EQ(lines(ran.err), 1);
}

TEST_F(Cli, netns_that_is_none)
{
	const std::string allowed = " (allowed: a name that `ip netns` lists, or a path such as /proc/PID/ns/net)\n";
	const std::pair<const char *, const char *> rows[] = {
		{"nowhere", "no such network namespace: '/run/netns/nowhere'"},
		{"/no/where", "no such network namespace: '/no/where'"},
		{"/etc/passwd", "not a network namespace: '/etc/passwd'"},
		{"/dev/null", "not a network namespace: '/dev/null'"},
		{"/proc/self/ns/mnt", "not a network namespace: '/proc/self/ns/mnt'"},
		{"../net", "not a name of a network namespace: '../net'"},
		{"proc/self/ns/net", "not a name of a network namespace: 'proc/self/ns/net'"},
	};

	for (const std::string verb : {"enable", "disable"})
		for (const auto &[netns, why] : rows) {
			const Ran ran = swiftctl(verb + " --netns " + netns + loaded());

			EXPECT_EQ(ran.status, 1) << netns;
			EXPECT_EQ(ran.out, "") << netns;
			EXPECT_EQ(ran.err, "swiftctl " + verb + ": --netns: " + why + allowed);
		}
	// Of a variable that is not set: not the namespace that we are in.
	for (const std::string verb : {"enable", "disable", "flows"}) {
		const Ran ran = swiftctl(verb + " --netns ''" + loaded());

		EXPECT_EQ(ran.status, 2);
		EXPECT_EQ(ran.err.find("swiftctl " + verb + ": an empty word after --netns"), 0U) << ran.err;
		EXPECT_EQ(lines(ran.err), 1);
	}
}

// Two network namespaces of its own, with processes of its own, so that one that is gone can be told.
TEST_F(Cli, enable_and_disable_of_real_network_namespaces)
{
	if (shell("unshare -n -m -p -f --mount-proc true").status != 0)
		GTEST_SKIP() << "cannot make namespaces";
	std::ofstream(dir_ / "script") << R"sh(set -euo pipefail
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/tcp_swift
ip netns add blue
unshare -n sleep infinity &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
pod=/proc/$!/ns/net
cookie() { # NETNS
	nsenter --net="$1" python3 -c 'import socket
print(int.from_bytes(socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, 71, 8), "little"))'
}
cc=/proc/sys/net/ipv4/tcp_congestion_control
ccs() { for ns in /run/netns/blue "$pod"; do nsenter --net="$ns" cat $cc; done | xargs; }
enabled() { # NETNS FILE; with reno in the place of swift
	nsenter --net="$1" sh -c "echo reno >$cc"
	printf '{"schema": 1, "boot_id": "%s", "netns": "%s", "changes": [
		{"kind": "sysctl", "key": "net.ipv4.tcp_congestion_control", "before": "%s", "written": ["reno"]}]}' \
		"$(cat /proc/sys/kernel/random/boot_id)" "$(cookie "$1")" "$was" >"/var/lib/tcp_swift/$2"
}
was=$(nsenter --net="$pod" cat $cc)
[ "$was" != reno ]
blue=enable-$(cookie /run/netns/blue).json pods=enable-$(cookie "$pod").json
state() { ls $1/var/lib/tcp_swift | xargs; }

enabled /run/netns/blue enable.json # as an older version did
enabled "$pod" "$pods"
[ "$(ccs)" = 'reno reno' ]
$S disable --netns blue --dry-run | grep -qx "ip netns exec blue sysctl -w net.ipv4.tcp_congestion_control=$was"
$S disable --netns "$pod" --dry-run | grep -qx "nsenter --net=$pod sysctl -w net.ipv4.tcp_congestion_control=$was"
[ "$(ccs)" = 'reno reno' ]
$S disable --netns blue
[ "$(ccs)" = "$was reno" ]
[ "$(state '')" = "$pods" ]
$S disable --netns "$pod" --json | grep -qF "\"netns\": \"$pod\""
[ "$(ccs)" = "$was $was" ]
[ "$(state '')" = '' ]

# Their sysctls are made up, as the module's are not there: the namespaces are real.
on() { $S enable --qdisc keep --echo --root "$R" "$@"; }
sysctls() { for f in "$R$cc" "$R/proc/sys/net/ipv4/tcp_swift/echo"; do cat "$f"; echo; done | xargs; }
on --netns blue --json | grep -qF '"netns": "blue"'
[ "$(state "$R")" = "$blue" ]
[ "$(sysctls)" = 'swift 1' ]
echo cubic >$R$cc
echo 0 >$R/proc/sys/net/ipv4/tcp_swift/echo
on --netns "$pod" >out
grep -qF "network namespace $pod" out
grep -qF "Undo: swiftctl disable --netns $pod" out
[ "$(state "$R" | wc -w)" = 2 ]
ip netns del blue
if $S disable --netns blue --root "$R"; then exit 1; fi
[ "$(sysctls)" = 'swift 1' ]
$S disable --netns "$pod" --root "$R" 2>said
grep -q 'network namespace blue is gone' said
[ "$(wc -l <said)" = 1 ]
[ "$(sysctls)" = 'cubic 0' ]
[ "$(state "$R")" = '' ]
echo well
)sh";
	const auto put = [&](const std::string &path, const std::string &text) {
		std::filesystem::create_directories((dir_ / "loaded" / path).parent_path());
		std::ofstream(dir_ / "loaded" / path) << text;
	};

	put("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
	put("proc/sys/net/ipv4/tcp_swift/echo", "0\n");
	put("proc/sys/kernel/random/boot_id", "this\n");
	const Ran ran = shell("cd " + dir_.string() + " && S=" SWIFTCTL " R=" + (dir_ / "loaded").string() +
			      " unshare -n -m -p -f --kill-child --mount-proc --propagation private bash -x script");

	EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
	EXPECT_TRUE(ran.out.ends_with("well\n")) << ran.out;
}

TEST_F(Cli, dry_run_changes_nothing)
{
	const auto root = dir_ / "host";
	const auto put = [&](const std::string &path, const std::string &text) {
		std::filesystem::create_directories((root / path).parent_path());
		std::ofstream(root / path) << text;
	};

	put("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
	put("proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic\n");
	put("proc/sys/net/core/default_qdisc", "pfifo_fast\n");
	const Ran before = shell("find " + root.string() + " -type f | sort | xargs md5sum");
	const Ran ran = swiftctl("enable --dry-run --persist --root " + root.string());
	const Ran after = shell("find " + root.string() + " -type f | sort | xargs md5sum");

	EXPECT_EQ(ran.status, 0) << ran.err;
	EXPECT_EQ(before.out, after.out);
	EXPECT_EQ(ran.out.find("modprobe tcp_swift\nsysctl -w net.core.default_qdisc=fq\n"
			       "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic swift'\n"
			       "sysctl -w net.ipv4.tcp_congestion_control=swift\n"
			       "printf "),
		  0U)
		<< ran.out;
}

TEST_F(Cli, enable_needs_root)
{
	if (geteuid() != 0)
		GTEST_SKIP() << "cannot become another user";
	// A copy: where the checkout is, others may not look.
	const std::filesystem::path copy = dir_ / "swiftctl";
	std::filesystem::copy_file(SWIFTCTL, copy);
	std::filesystem::permissions(dir_, std::filesystem::perms::owner_all | std::filesystem::perms::others_exec);
	for (const char *verb : {"enable", "disable"}) {
		const Ran ran = shell("setpriv --reuid 65534 --clear-groups " + copy.string() + " " + verb);

		EXPECT_EQ(ran.status, 1) << verb;
		EXPECT_EQ(lines(ran.err), 1);
		EXPECT_NE(ran.err.find("needs root"), std::string::npos) << ran.err;
	}
}

TEST_F(Cli, clock_without_the_module_is_1_and_says_what_to_do)
{
	std::filesystem::create_directories(dir_ / "empty/sys/class/net/eth0");
	for (const char *verb : {"clock", "clock show"}) {
		const Ran ran = swiftctl(verb + empty());

		EXPECT_EQ(ran.status, 1) << verb;
		EXPECT_EQ(lines(ran.err), 1) << verb;
		EXPECT_NE(ran.out.find("no clock is fed"), std::string::npos) << verb;
	}
	EXPECT_NE(swiftctl("clock --json" + empty()).out.find("\"nics\": []"), std::string::npos);
}

TEST_F(Cli, clock_run_where_no_nic_can)
{
	std::filesystem::create_directories(dir_ / "empty/sys/class/net/eth0");
	for (const char *verb : {"clock run --dry-run", "clock read", "clock run --iface eth9",
				 "clock run --dry-run --iface eth9", "clock --iface eth9", "clock read --iface eth0"}) {
		const Ran ran = swiftctl(verb + empty());

		EXPECT_EQ(ran.status, 1) << verb << ran.out;
		EXPECT_EQ(lines(ran.err), 1) << verb << ran.err;
	}
	const Ran ran = swiftctl("clock restore" + empty());

	EXPECT_EQ(ran.status, 0);
	EXPECT_EQ(ran.out, "nothing to put back: no clock feeder has left a NIC changed\n");
}

TEST_F(Cli, report_of_what_is_no_result)
{
	std::ofstream(dir_ / "bad.json") << R"({"runs": [{"cc": 5}]})";
	for (const char *file : {"bad.json", "none.json", "six.bin"}) {
		const Ran ran = swiftctl("report " + (dir_ / file).string());

		EXPECT_EQ(ran.status, 1) << file;
		EXPECT_EQ(lines(ran.err), 1) << file << ran.err;
		EXPECT_EQ(ran.out, "");
	}
	EXPECT_NE(swiftctl("report " + (dir_ / "bad.json").string())
			  .err.find("bad.json: runs[0].cc: expected a string, found number"),
		  std::string::npos);
}

TEST_F(Cli, a_report_does_not_overwrite_what_it_reads)
{
	const std::string content = R"({"runs": [{"cc": "swift", "goodput_bps": 1}]})";
	const std::string file = (dir_ / "ab.json").string(), link = (dir_ / "link").string();

	std::ofstream(file) << content;
	std::filesystem::create_symlink(file, link);
	for (const std::string &arguments :
	     {file + " --markdown " + file, file + " --html " + dir_.string() + "/./ab.json", link + " --html " + file,
	      file + " --markdown " + link, "--html " + file + " --markdown " + link + " " + (dir_ / "six.bin").string()}) {
		const Ran ran = swiftctl("report " + arguments);

		EXPECT_EQ(ran.status, 2) << arguments << ran.err;
		EXPECT_NE(ran.err.find("(allowed: two files)"), std::string::npos) << ran.err;
		EXPECT_EQ(content_of(file), content) << arguments;
	}
	EXPECT_EQ(swiftctl("report " + file + " --html /dev/null --markdown /dev/null").status, 0);
}

TEST_F(Cli, ab_dry_run_prints_commands_in_the_order_of_the_seed)
{
	const Ran ran = swiftctl("ab 10.0.0.2 --client c2 --cc cubic,reno --runs 2 --seed 1 --dry-run");

	EXPECT_EQ(ran.status, 0) << ran.err;
	EXPECT_EQ(lines(ran.out), 12);
	EXPECT_NE(ran.out.find("\nssh c2 iperf3 --json --connect-timeout 5000 -c 10.0.0.2 -p 5202 -C "), std::string::npos);
	EXPECT_EQ(ran.out, swiftctl("ab 10.0.0.2 --client c2 --cc cubic,reno --runs 2 --seed 1 --dry-run").out);
}

TEST_F(Cli, doctor_of_an_empty_host_fails_with_a_summary)
{
	const Ran ran = swiftctl("doctor" + empty());

	EXPECT_EQ(ran.status, 1);
	EXPECT_NE(ran.out.find(" fail\n"), std::string::npos);
}
