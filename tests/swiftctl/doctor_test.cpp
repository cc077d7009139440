// SPDX-License-Identifier: MIT
// doctor on made-up hosts: each check, good and bad.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "doctor.h"
#include "fake_system.h"

using namespace swift;
using swift_test::FakeSystem;

namespace {

NicClock fed_clock()
{
	NicClock c;

	c.ifindex = 2;
	c.line = {1000, 1000, 1ULL << 32, 120};
	c.valid_ms = 600;
	c.owner = 77;
	return c;
}

// A host that nothing is wrong with.
struct Healthy : FakeSystem {
	Healthy()
	{
		load();
		files["/proc/sys/kernel/osrelease"] = "6.12.0-1-amd64\n";
		files["/boot/config-6.12.0-1-amd64"] = "CONFIG_HZ_1000=y\nCONFIG_HZ=1000\n"
						       "CONFIG_HIGH_RES_TIMERS=y\n";
		files["/sys/devices/system/clocksource/clocksource0/current_clocksource"] = "tsc\n";
		files["/proc/sys/net/ipv4/tcp_congestion_control"] = "swift\n";
		files["/proc/sys/net/ipv4/tcp_allowed_congestion_control"] = "cubic reno swift\n";
		files["/proc/sys/net/ipv4/tcp_timestamps"] = "1\n";
		files["/proc/sys/net/ipv4/tcp_sack"] = "1\n";
		files["/proc/sys/net/ipv4/tcp_tso_rtt_log"] = "9\n";
		files["/proc/sys/net/ipv4/tcp_mem"] = "100\t200\t300\n";
		files["/proc/sys/net/core/netdev_max_backlog"] = "1000\n";
		files["/proc/net/sockstat"] = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 9 mem 12\n";
		files["/proc/net/softnet_stat"] = "00000010 00000000 00000000\n00000020 00000000 0\n";
		files["/proc/sys/net/ipv4/tcp_swift/echo"] = "1\n";
		files.erase("/sys/class/net/eth0");
		files.erase("/sys/class/net/eth1");
		files["/sys/class/net/eth0/device/vendor"] = "x";
		files["/sys/class/net/eth0/operstate"] = "up\n";
		files["/sys/class/net/eth0/speed"] = "100000\n";
		files["/sys/class/net/eth0/mtu"] = "1500\n";
		files["/sys/class/net/lo/operstate"] = "unknown\n";
		devs["eth0"] = {true, "fq", true};
		outputs["ip -j -d link show dev eth0"] = R"([{"ifname":"eth0","gso_max_size":65536}])";
		coalesce["eth0"] = {4, false};
		files["/sys/class/net/eth0/ifindex"] = "2\n";
		stamps["eth0"] = {true, true, 0};
		clocks = {fed_clock()};

		Flow f;

		f.state = 1;
		f.local.address = *Address::parse("10.0.0.1");
		f.remote.address = *Address::parse("10.0.0.2");
		f.tcp = TcpCounters{};
		f.tcp->min_rtt_us = 30;
		sockets = {f};
	}
};

std::vector<Finding> look(FakeSystem &s, const DoctorOptions &o = {}, const BpfClockTable &bpf = {})
{
	auto findings = examine({s, s, s}, o, bpf);

	EXPECT_TRUE(findings) << findings.error().text();
	return findings ? *findings : std::vector<Finding>();
}

const Finding *find(const std::vector<Finding> &findings, const std::string &check)
{
	for (const Finding &f : findings)
		if (f.check == check)
			return &f;
	return nullptr;
}

} // namespace

TEST(doctor, a_healthy_host_is_all_ok)
{
	Healthy s;

	for (const Finding &f : look(s))
		EXPECT_EQ(f.severity, Severity::ok) << f.check << ": " << f.seen;
}

TEST(doctor, each_fault_is_found_with_why_and_fix)
{
	struct {
		void (*harm)(FakeSystem &);
		const char *check;
		Severity severity;
		const char *fix;
	} const rows[] = {
		{[](auto &s) { s.files["/proc/sys/kernel/osrelease"] = "5.15.0\n"; }, "kernel",
		 Severity::fail, ""},
		{[](auto &s) { s.files["/boot/config-6.12.0-1-amd64"] = "CONFIG_HZ=100\n"
									"CONFIG_HIGH_RES_TIMERS=y\n"; },
		 "hz", Severity::warn, "CONFIG_HZ"},
		{[](auto &s) { s.files.erase("/boot/config-6.12.0-1-amd64"); }, "hz", Severity::warn, ""},
		{[](auto &s) { s.files["/proc/timer_list"] = "  .hres_active    : 0\n"; }, "hrtimers",
		 Severity::fail, "highres"},
		{[](auto &s) {
			 s.files["/sys/devices/system/clocksource/clocksource0/current_clocksource"] = "hpet\n";
			 s.files["/sys/devices/system/clocksource/clocksource0/available_clocksource"] = "hpet tsc acpi_pm\n";
		 },
		 "clocksource", Severity::warn, "echo tsc > "},
		{[](auto &s) { s.files.erase("/sys/module/tcp_swift/refcnt"); }, "module", Severity::fail,
		 "swiftctl enable"},
		{[](auto &s) { s.files.erase("/proc/sys/net/ipv4/tcp_swift/split"); }, "sysctl",
		 Severity::warn, "rmmod tcp_swift && modprobe tcp_swift"},
		{[](auto &s) {
			 std::erase_if(s.files, [](const auto &f) { return f.first.starts_with("/proc/sys/net/ipv4/tcp_swift/"); });
		 },
		 "sysctl", Severity::fail, ""},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_swift/split"] = "7\n"; }, "sysctl",
		 Severity::warn, ""},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_congestion_control"] = "cubic\n"; },
		 "default-cc", Severity::warn, "swiftctl enable"},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_timestamps"] = "0\n"; }, "tcp_timestamps",
		 Severity::warn, "sysctl -w net.ipv4.tcp_timestamps=1"},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_sack"] = "0\n"; }, "tcp_sack",
		 Severity::warn, "sysctl -w net.ipv4.tcp_sack=1"},
		{[](auto &s) { s.files["/proc/net/sockstat"] = "TCP: inuse 5 mem 250\n"; }, "tcp-mem",
		 Severity::warn, "tcp_mem"},
		{[](auto &s) { s.files["/proc/net/softnet_stat"] = "1 0000000a 0\n1 1 0\n"; }, "backlog",
		 Severity::warn, "netdev_max_backlog=4000"},
		{[](auto &s) {
			 s.files["/proc/sys/net/ipv4/tcp_swift/target_policy"] = "static\n";
			 s.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"] = "25000\n";
		 },
		 "target", Severity::fail, "target_policy=base_rtt_plus"},
		{[](auto &s) {
			 s.files["/proc/sys/net/ipv4/tcp_swift/target_policy"] = "static\n";
			 s.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"] = "33000\n";
		 },
		 "target", Severity::warn, "target_policy=base_rtt_plus"},
		{[](auto &s) {
			 s.files["/proc/sys/net/ipv4/tcp_swift/target_policy"] = "static\n";
			 s.sockets.clear();
		 },
		 "target", Severity::warn, "--peer"},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_swift/max_rtt_ns"] = "20000\n"; }, "guard",
		 Severity::warn, "max_rtt_ns=60000"},
		{[](auto &s) { s.files["/proc/sys/net/ipv4/tcp_swift/echo"] = "0\n"; }, "echo",
		 Severity::warn, "echo=1"},
		{[](auto &s) { s.devs["eth0"] = {true, "fq_codel", false}; }, "eth0 qdisc", Severity::warn,
		 "swiftctl enable --iface eth0"},
		{[](auto &s) { s.devs["eth0"] = {false, "htb", true}; }, "eth0 qdisc", Severity::warn,
		 "tc qdisc replace dev eth0 root fq"},
		{[](auto &s) { s.files["/sys/class/net/eth0/speed"] = "25000\n"; }, "eth0 bursts",
		 Severity::warn, "ip link set dev eth0 gso_max_size 36864"},
		{[](auto &s) { s.coalesce["eth0"] = {50, false}; }, "eth0 coalescing", Severity::warn,
		 "ethtool -C eth0 rx-usecs 6"},
		{[](auto &s) { s.coalesce["eth0"] = {0, true}; }, "eth0 coalescing", Severity::warn,
		 "ethtool -C eth0 adaptive-rx off rx-usecs 0"},
		{[](auto &s) { s.stamps["eth0"] = {true, false, 3}; }, "eth0 stamps", Severity::warn,
		 "swiftctl clock run --iface eth0"},
		{[](auto &s) { s.clocks->clear(); }, "eth0 clock", Severity::warn,
		 "swiftctl clock run --iface eth0"},
		{[](auto &s) { s.clocks->front().ifindex = 3; }, "eth0 clock", Severity::warn,
		 "swiftctl clock run --iface eth0"},
		{[](auto &s) { s.clocks->front().valid_ms = 0; }, "eth0 clock", Severity::warn,
		 "swiftctl clock run --iface eth0"},
		{[](auto &s) { s.clocks.reset(); }, "eth0 clock", Severity::warn, ""},
		{[](auto &s) { s.files["/sys/class/net/eth0/mtu"] = "1400\n"; }, "eth0 mtu", Severity::warn,
		 ""},
		{[](auto &s) { s.files["/sys/class/net/eth0/operstate"] = "down\n"; }, "interfaces",
		 Severity::warn, "--iface"},
	};

	for (const auto &r : rows) {
		Healthy s;

		r.harm(s);
		const auto findings = look(s);
		const Finding *f = find(findings, r.check);

		ASSERT_NE(f, nullptr) << r.check;
		EXPECT_EQ(f->severity, r.severity) << r.check << ": " << f->seen;
		EXPECT_NE(f->fix.find(r.fix), std::string::npos) << r.check << ": " << f->fix;
		EXPECT_FALSE(f->why.empty()) << r.check;
	}
}

// Credit is off unless somebody wants it; then both ends, and each device, are asked.
TEST(doctor, credit_at_both_ends)
{
	struct {
		void (*change)(Healthy &);
		const char *check;
		Severity severity;
		const char *seen;
		const char *fix;
	} const rows[] = {
		{[](Healthy &s) { s.files["/proc/sys/net/ipv4/tcp_swift/credit"] = "0\n"; }, "credit", Severity::ok, "off", ""},
		{[](Healthy &) {}, "credit", Severity::ok, "on for connections", ""},
		{[](Healthy &) {}, "peer credit", Severity::warn, "none of 1 flows", "credit=1   # at both ends"},
		{[](Healthy &s) { s.sockets[0].swift->credit = Credit::enough; }, "peer credit", Severity::ok,
		 "1 of 1 flows negotiated it", ""},
		{[](Healthy &) {}, "eth0 credit", Severity::ok, "lends 100000 Mb/s, as its driver says", ""},
		{[](Healthy &s) { s.files["/sys/class/net/eth0/speed"] = "-1\n"; }, "eth0 credit", Severity::warn,
		 "its driver tells no rate", "link_mbps="},
		{[](Healthy &s) {
			 s.files["/sys/class/net/eth0/speed"] = "-1\n";
			 s.files["/proc/sys/net/ipv4/tcp_swift/link_mbps"] = "25000\n";
		 },
		 "eth0 credit", Severity::ok, "lends 25000 Mb/s, as link_mbps says", ""},
	};

	for (const auto &r : rows) {
		Healthy s;

		s.files["/proc/sys/net/ipv4/tcp_swift/credit"] = "1\n";
		s.sockets[0].cc = "swift";
		s.sockets[0].swift.emplace();
		r.change(s);
		const auto findings = look(s);
		const Finding *f = find(findings, r.check);

		ASSERT_NE(f, nullptr) << r.check;
		EXPECT_EQ(f->severity, r.severity) << r.check << ": " << f->seen;
		EXPECT_TRUE(f->seen.starts_with(r.seen)) << f->seen;
		EXPECT_NE(f->fix.find(r.fix), std::string::npos) << f->fix;
	}
	Healthy off;

	EXPECT_EQ(find(look(off), "eth0 credit"), nullptr);
	EXPECT_EQ(find(look(off), "peer credit"), nullptr);
}

TEST(doctor, credit_of_a_peer_that_is_asked)
{
	const std::vector<std::tuple<std::optional<Credit>, Severity, const char *>> rows = {
		{Credit::enough, Severity::ok, "10.0.0.2:443 negotiates it"},
		{Credit::none, Severity::warn, "10.0.0.2:443 does not negotiate it"},
		{std::nullopt, Severity::ok, "not known: 10.0.0.2:443 accepts no connection of swift"},
	};

	for (const auto &[credit, severity, seen] : rows) {
		Healthy s;
		DoctorOptions o;

		s.files["/proc/sys/net/ipv4/tcp_swift/credit"] = "1\n";
		s.rtt_ns = 40000;
		s.peer_credit = credit;
		o.peer = "10.0.0.2:443";
		const auto findings = look(s, o);
		const Finding *f = find(findings, "peer credit");

		ASSERT_NE(f, nullptr);
		EXPECT_EQ(f->severity, severity);
		EXPECT_EQ(f->seen, seen);
	}
}

// The module paces by TCP's own timer, whatever the queueing discipline.
TEST(doctor, fq_is_not_said_to_pace)
{
	Healthy s;

	s.devs["eth0"] = {true, "pfifo_fast", false};
	const auto findings = look(s);
	const Finding *f = find(findings, "eth0 qdisc");

	ASSERT_NE(f, nullptr);
	EXPECT_NE(f->why.find("TCP's own timer paces Swift, with or without fq"), std::string::npos) << f->why;
	EXPECT_EQ(f->why.find("paced best by fq"), std::string::npos);
}

// Without the module it is they who need the NIC's clock.
TEST(doctor, clocks_of_bpf_variants)
{
	const auto clock_of = [](FakeSystem &s, const BpfClockTable &bpf) -> std::optional<Finding> {
		const auto findings = examine({s, s, s}, {}, bpf);
		const Finding *f = findings ? find(*findings, "eth0 clock") : nullptr;

		return f ? std::optional(*f) : std::nullopt;
	};
	Healthy s;

	s.files.erase("/sys/module/tcp_swift/refcnt");
	s.clocks.reset();
	EXPECT_FALSE(clock_of(s, {}));
	auto f = clock_of(s, {{"bpf_swift"}, {}});

	ASSERT_TRUE(f);
	EXPECT_EQ(f->severity, Severity::warn);
	EXPECT_EQ(f->seen, "no clock is fed");
	EXPECT_EQ(f->fix, "swiftctl clock run --iface eth0");

	BpfClock c{"bpf_swift", fed_clock()};

	f = clock_of(s, {{"bpf_swift"}, {c}});
	ASSERT_TRUE(f);
	EXPECT_EQ(f->severity, Severity::ok) << f->seen;
	c.clock.valid_ms = 0;
	f = clock_of(s, {{"bpf_swift"}, {c}});
	ASSERT_TRUE(f);
	EXPECT_NE(f->seen.find("stale"), std::string::npos) << f->seen;
	c.clock.ifindex = 3; // another NIC's
	EXPECT_EQ(clock_of(s, {{"bpf_swift"}, {c}})->seen, "no clock is fed");
}

TEST(doctor, no_burst_advice_where_the_pacing_rate_rules)
{
	Healthy s;

	s.files["/sys/class/net/eth0/speed"] = "10000\n";
	EXPECT_EQ(find(look(s), "eth0 bursts")->severity, Severity::warn);
	s.files["/proc/sys/net/ipv4/tcp_tso_rtt_log"] = "0\n";
	EXPECT_EQ(find(look(s), "eth0 bursts"), nullptr);
	EXPECT_EQ(find(look(s), "bursts")->severity, Severity::ok);
}

// Of what is advised each alone is enough.
TEST(doctor, burst_advice_helps)
{
	for (const char *speed : {"1000\n", "10000\n", "25000\n", "100000\n"}) {
		Healthy s;

		s.files["/sys/class/net/eth0/speed"] = speed;
		const auto findings = look(s);
		const Finding *f = find(findings, "eth0 bursts");
		const auto size = f->fix.find("gso_max_size ");

		if (f->severity == Severity::ok)
			continue;
		ASSERT_NE(f->fix.find("sysctl -w net.ipv4.tcp_tso_rtt_log=0"), std::string::npos) << f->fix;
		if (size != std::string::npos) {
			s.outputs["ip -j -d link show dev eth0"] =
				R"([{"ifname":"eth0","gso_max_size":)" + words(f->fix.substr(size))[1] + "}]";
			EXPECT_EQ(find(look(s), "eth0 bursts")->severity, Severity::ok) << speed << f->fix;
		}
		EXPECT_EQ(size == std::string::npos, speed == std::string("1000\n")) << f->fix;
	}
}

TEST(doctor, a_clock_source_that_is_not_there_is_not_advised)
{
	Healthy s;
	const std::string dir = "/sys/devices/system/clocksource/clocksource0/";

	s.files[dir + "current_clocksource"] = "acpi_pm\n";
	for (const auto &[available, fix] : {std::pair("hpet acpi_pm\n", ""), std::pair("acpi_pm kvm-clock\n", "echo kvm-clock > ")}) {
		s.files[dir + "available_clocksource"] = available;
		const auto findings = look(s);

		EXPECT_EQ(find(findings, "clocksource")->severity, Severity::warn);
		EXPECT_TRUE(find(findings, "clocksource")->fix.starts_with(fix)) << find(findings, "clocksource")->fix;
		EXPECT_EQ(find(findings, "clocksource")->fix.empty(), *fix == '\0');
	}
}

// Each time four times as long.
TEST(doctor, a_backlog_is_not_made_longer_for_ever)
{
	struct {
		const char *softnet, *limit;
		Severity severity;
		const char *fix;
	} const rows[] = {{"10000000 1 0\n", "1000\n", Severity::ok, ""},
			  {"10000 1 0\n", "300\n", Severity::warn, "sysctl -w net.core.netdev_max_backlog=4000"},
			  {"10000 1 0\n", "4000\n", Severity::warn, ""}};

	for (const auto &r : rows) {
		Healthy s;

		s.files["/proc/net/softnet_stat"] = r.softnet;
		s.files["/proc/sys/net/core/netdev_max_backlog"] = r.limit;
		const auto findings = look(s);

		EXPECT_EQ(find(findings, "backlog")->severity, r.severity) << r.softnet << r.limit;
		EXPECT_EQ(find(findings, "backlog")->fix, r.fix);
	}
}

TEST(doctor, a_variant_in_the_place_of_the_module)
{
	Healthy s;

	s.files.erase("/sys/module/tcp_swift/refcnt");
	s.installed = false;
	for (const auto &[cc, severity, fix] :
	     {std::tuple("bpf_swift\n", Severity::ok, ""), std::tuple("cubic\n", Severity::warn, "sysctl -w net.ipv4.tcp_congestion_control=bpf_swift")}) {
		s.files["/proc/sys/net/ipv4/tcp_congestion_control"] = cc;
		const auto findings = look(s, {}, {{"bpf_swift"}, {{"bpf_swift", fed_clock()}}});

		EXPECT_EQ(count(findings, Severity::fail), 0U);
		EXPECT_EQ(find(findings, "module")->severity, Severity::ok);
		EXPECT_EQ(find(findings, "module")->seen, "not loaded; in BPF: bpf_swift");
		EXPECT_EQ(find(findings, "default-cc")->severity, severity);
		EXPECT_EQ(find(findings, "default-cc")->fix, fix);
	}
	EXPECT_EQ(find(look(s), "module")->severity, Severity::fail);
	s.files["/proc/sys/net/ipv4/tcp_available_congestion_control"] = "reno cubic bpf_timely\n"; // takes no clocks
	EXPECT_EQ(find(look(s), "module")->seen, "not loaded; in BPF: bpf_timely");
}

TEST(doctor, a_peer_is_measured)
{
	Healthy s;
	DoctorOptions o;

	s.rtt_ns = 80000;
	o.peer = "10.0.0.2:443";
	o.target_ns = "50000";
	const auto findings = look(s, o);

	EXPECT_EQ(find(findings, "target")->severity, Severity::fail);
	EXPECT_NE(find(findings, "target")->seen.find("80.0 us"), std::string::npos);
	EXPECT_NE(find(findings, "target")->why.find("collapse to min_cwnd"), std::string::npos);
	s.rtt_ns.reset();
	EXPECT_EQ(find(look(s, o), "peer")->severity, Severity::warn);
}

TEST(doctor, loopback_flows_are_no_measure)
{
	Healthy s;

	s.sockets[0].local.address = *Address::parse("127.0.0.1");
	s.sockets[0].remote.address = *Address::parse("127.0.0.1");
	EXPECT_NE(find(look(s), "target")->seen.find("idle RTT unknown"), std::string::npos);
}

// Between two addresses of this host; the fabric's is another.
TEST(doctor, flows_within_the_host_are_no_measure)
{
	Healthy s;
	Flow there = s.sockets[0], back = s.sockets[0];

	s.files["/proc/sys/net/ipv4/tcp_swift/target_policy"] = "static\n";
	s.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"] = "50000\n";
	s.sockets[0].tcp->min_rtt_us = 200;
	there.remote.address = back.local.address = *Address::parse("192.168.0.1");
	back.remote.address = *Address::parse("::ffff:10.0.0.1");
	there.tcp->min_rtt_us = back.tcp->min_rtt_us = 10;
	s.sockets.insert(s.sockets.end(), {there, back});
	const auto findings = look(s);

	EXPECT_EQ(find(findings, "target")->severity, Severity::fail) << find(findings, "target")->seen;
	EXPECT_NE(find(findings, "target")->seen.find("idle RTT 200 us"), std::string::npos) << find(findings, "target")->seen;
}

TEST(doctor, wrong_options)
{
	for (const char *peer : {":80", "host:", "host:0", "host:99999", "[::1", "[::1]x", "[]:1"}) {
		Healthy s;
		DoctorOptions o;

		s.rtt_ns = 1;
		o.peer = peer;
		EXPECT_FALSE(examine({s, s, s}, o)) << peer;
	}
	for (const char *peer : {"host", "10.0.0.1:80", "::1", "fd00::", "[::1]:80", "[fe80::1]"}) {
		Healthy s;
		DoctorOptions o;

		s.rtt_ns = 30000;
		o.peer = peer;
		EXPECT_TRUE(examine({s, s, s}, o)) << peer;
	}
	Healthy s;
	DoctorOptions o;

	o.target_ns = "25us";
	EXPECT_FALSE(examine({s, s, s}, o));
}

TEST(doctor, an_interface_that_is_not_there)
{
	Healthy s;
	DoctorOptions o;

	o.ifaces = {"eth9"};
	EXPECT_EQ(find(look(s, o), "eth9")->severity, Severity::fail);
}

TEST(real_system, reads_below_a_root_and_replaces_files_whole)
{
	const auto dir = std::filesystem::temp_directory_path() /
			 ("swiftctl-test-" + std::to_string(getpid()));
	const auto system = real_system(dir.string());

	ASSERT_TRUE(system->replace_file("/a/b/c", "one", 0600));
	ASSERT_TRUE(system->replace_file("/a/b/c", "two", 0600));
	EXPECT_EQ(*system->read_file("/a/b/c"), "two");
	EXPECT_EQ(std::filesystem::status(dir / "a/b/c").permissions(),
		  std::filesystem::perms(0600));
	EXPECT_EQ(*system->list_dir("/a/b"), std::vector<std::string>{"c"});
	EXPECT_TRUE(system->write_file("/a/b/c", "three"));
	EXPECT_EQ(*system->read_file("/a/b/c"), "three");
	EXPECT_FALSE(system->write_file("/a/b/d", "x"));
	EXPECT_FALSE(system->read_file("/a/b/d"));

	auto held = system->lock("/a/lock");

	ASSERT_TRUE(held);
	const auto again = system->lock("/a/lock");

	ASSERT_FALSE(again);
	EXPECT_EQ(again.error().code, EWOULDBLOCK);
	EXPECT_TRUE(system->remove_file("/a/b/c"));
	EXPECT_FALSE(system->exists("/a/b/c"));
	EXPECT_TRUE(system->remove_file("/a/b/c"));
	std::filesystem::remove_all(dir);
}

TEST(real_system, runs_commands_without_a_shell)
{
	const auto system = real_system();
	const auto echoed = system->run({"echo", "$(id)", ";", "x y"});

	ASSERT_TRUE(echoed);
	EXPECT_EQ(echoed->out, "$(id) ; x y\n");
	EXPECT_EQ(system->run({"false"})->status, 1);
	EXPECT_NE(system->run({"ls", "/no/such"})->err.find("No such file"), std::string::npos);
	EXPECT_FALSE(system->run({"no-such-command"}));
	EXPECT_EQ(system->run({"seq", "1", "200000"})->out.size(), 1288895U);
}
