// SPDX-License-Identifier: MIT
// The telemetry on a made-up kernel: loading it and letting it watch, after any failure;
// what its maps hold as plain data; and what `swiftctl delays` makes of that.
#include "telemetry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "bpf_telemetry.h"
#include "bpf_variant.h"
#include "bpf.h"
#include "delays.h"
#include "fake_bpf_host.h"
#include "flows.h"
#include "parsed.h"
#include "telemetry_maps.h"

using namespace swift;
using swift_test::error_of;
using swift_test::FakeBpfFile;
using swift_test::FakeBpfHost;
using swift_test::FakeBpfSystem;

namespace {

const std::string telemetry_pins = "/sys/fs/bpf/tcp_swift/telemetry";
constexpr const char *object = "telemetry";

template <typename T> BpfBytes bytes_of(const T &value)
{
	const auto *p = reinterpret_cast<const std::byte *>(&value);

	return {p, p + sizeof(value)};
}

FakeBpfFile telemetry_file()
{
	FakeBpfFile f;

	f.ops = "";
	f.registers = "";
	f.programs = {{"telemetry_module", BpfProgramKind::raw_tracepoint, "raw_tp/swift_sample"},
		      {"telemetry_variant", BpfProgramKind::tracing, "fentry/swift_decided_at"},
		      {"telemetry_tx", BpfProgramKind::tracing, "tp_btf/net_dev_start_xmit"},
		      {"telemetry_tx_nic", BpfProgramKind::tracing, "fentry/tcp_wfree"}};
	f.maps = {{"flows", 9, sizeof(telemetry_flow_key), sizeof(telemetry_flow), 16384, false, false},
		  {"prefixes", 5, sizeof(telemetry_prefix_key), sizeof(telemetry_prefix), 256, false, false},
		  {"networks", 11, 20, 4, 1024, false, false},
		  {"counters", 6, 4, 8, TELEMETRY_COUNTERS, false, false},
		  {"settings", 2, 4, sizeof(telemetry_settings), 1, false, false},
		  {"nothing", 2, 4, sizeof(telemetry_prefix), 1, false, false},
		  {"tx_packets", 2, 4, 72, TELEMETRY_MAX_TX_PACKETS, false, false},
		  {"tx_destructor", 2, 4, 8, 1, false, false},
		  {"swift_te.rodata", 2, 4, 24, 1, false, true}};
	return f;
}

struct TelemetryMachine {
	FakeBpfHost host;
	FakeBpfSystem system{host};
	BpfVariants variants{system, system, host};
	BpfTelemetry telemetry{system, host};

	TelemetryMachine()
	{
		FakeBpfFile &swift = host.objects["bpf_swift"];

		swift.maps.push_back({"telemetry_on", 2, 4, 4, 1, false, false});
		host.files["/tmp/second.bpf.o"] = swift;
		host.objects[object] = telemetry_file();
		module(true);
	}
	void module(bool there)
	{
		host.tracepoints.clear();
		if (there) {
			host.tracepoints.insert("swift_sample");
			system.files["/proc/sys/net/ipv4/tcp_swift/ai_milli"] = "1000\n";
			system.files["/sys/module/tcp_swift/initstate"] = "live\n";
		} else {
			system.files.erase("/proc/sys/net/ipv4/tcp_swift/ai_milli");
			system.files.erase("/sys/module/tcp_swift/initstate");
		}
	}
	BpfReport load_swift()
	{
		BpfLoadRequest r;

		r.name = "bpf_swift";
		return variants.load(r);
	}
	bool watches(const std::string &program) const
	{
		for (const auto &weak : host.links)
			if (const auto link = weak.lock(); link && link->holds->program.starts_with("telemetry_variant") &&
							   link->cgroup.starts_with(program))
				return true;
		return false;
	}
	std::uint32_t on() const
	{
		const auto &content = host.pinned.at("/sys/fs/bpf/tcp_swift/bpf_swift/telemetry_on")->content;
		std::uint32_t v = 0;

		if (!content.empty())
			std::memcpy(&v, content.begin()->second.data(), sizeof(v));
		return v;
	}
};

constexpr std::uint32_t here = 4026531840; // a network namespace, and another one
constexpr std::uint32_t elsewhere = 4026532001;

telemetry_prefix_key prefix_key(const char *cidr, const char *cc, std::uint32_t netns = here)
{
	telemetry_prefix_key k{};

	if (cidr) {
		const auto p = *BpfPrefix::parse(cidr);

		std::copy(p.address.begin(), p.address.end(), k.addr);
		k.prefix_len = p.length;
		k.netns = netns;
	} else {
		k.prefix_len = TELEMETRY_OTHER;
	}
	std::strncpy(k.cc, cc, sizeof(k.cc) - 1);
	return k;
}

void put(FakeBpfHost &host, const std::string &map, const BpfBytes &key, const BpfBytes &value)
{
	host.pinned.at(telemetry_pins + "/" + map)->content[key] = value;
}

telemetry_prefix prefix_with(std::uint64_t n, std::uint32_t fabric_ns)
{
	telemetry_prefix p{};

	p.decisions[TCP_SWIFT_INCREASE] = n;
	p.losses = 2;
	p.sums[TELEMETRY_FABRIC] = n * fabric_ns;
	p.buckets[TELEMETRY_FABRIC][LogHistogram::bucket_of(fabric_ns)] = n;
	return p;
}

} // namespace

/* --- Loading ---------------------------------------------------------------------------- */

TEST(BpfTelemetry, LoadsAndLeavesNothing)
{
	TelemetryMachine m;
	const std::string before = m.host.world();

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	EXPECT_TRUE(m.host.exists(telemetry_pins + "/link_telemetry_module"));
	EXPECT_FALSE(m.host.exists(telemetry_pins + "/link_telemetry_tx"));
	EXPECT_FALSE(m.host.exists(telemetry_pins + "/link_telemetry_tx_nic"));
	EXPECT_EQ(m.host.map(telemetry_pins + "/tx_packets")->max_entries, 1U);
	EXPECT_EQ(m.host.map(telemetry_pins + "/flows")->max_entries, 16384U);
	EXPECT_TRUE(m.telemetry.status()->module_attached);
	ASSERT_EQ(error_of(m.telemetry.unload(false, false)), "");
	EXPECT_EQ(m.host.world(), before);
	EXPECT_FALSE(m.telemetry.status());
}

TEST(BpfTelemetry, AfterAnyFailureTheWorldIsAsBefore)
{
	int without_nic = 0;

	for (int n = 1;; n++) {
		TelemetryMachine m;

		ASSERT_EQ(error_of(m.load_swift()), "");
		const std::string before = m.host.world();

		m.host.operations = 0;
		m.host.fail_at = n;
		TelemetryRequest r;

		r.tx_one_in = "100";
		r.prefixes = {"10.1.0.0/16"};
		const BpfReport report = m.telemetry.load(r);

		if (m.host.operations < n) {
			EXPECT_FALSE(report.error);
			EXPECT_TRUE(m.telemetry.status()->tx_nic_attached);
			EXPECT_EQ(without_nic, 4); // load, attach, two pins
			EXPECT_GT(n, 15);
			break;
		}
		if (!report.error) { // the NIC's share alone is missing, which is said
			without_nic++;
			ASSERT_FALSE(report.notes.empty());
			EXPECT_NE(report.notes[0].find("tx_nic_ns"), std::string::npos) << report.notes[0];
			EXPECT_NE(report.notes[0].find("injected"), std::string::npos) << report.notes[0];
			EXPECT_TRUE(m.host.exists(telemetry_pins + "/link_telemetry_tx")) << n;
			EXPECT_FALSE(m.host.exists(telemetry_pins + "/link_telemetry_tx_nic")) << n;
			EXPECT_FALSE(m.host.exists(telemetry_pins + "/prog_telemetry_tx_nic")) << n;
			EXPECT_FALSE(m.telemetry.status()->tx_nic_attached);
			EXPECT_TRUE(m.watches("cong_control")) << n;
			continue;
		}
		EXPECT_TRUE(report.steps.empty());
		EXPECT_FALSE(m.host.exists(telemetry_pins)) << n << report.error->text();
		EXPECT_FALSE(m.host.exists(telemetry_pins + "~new")) << n << report.error->text();
		EXPECT_FALSE(m.watches("cong_control")) << n;
		EXPECT_EQ(m.on(), 0U) << n;
		// The map of the variant may have got the value that it began with.
		m.host.pinned.at("/sys/fs/bpf/tcp_swift/bpf_swift/telemetry_on")->content.clear();
		EXPECT_EQ(m.host.world(), before) << n;
	}
}

TEST(BpfTelemetry, AKilledLoaderIsMendedByTheNext)
{
	for (int n = 1; n < 60; n++) {
		TelemetryMachine m;

		m.host.fail_at = n;
		m.host.dead_after = true;
		const BpfReport killed = m.telemetry.load({});

		m.host.fail_at = 0;
		if (!killed.error)
			break;
		EXPECT_EQ(error_of(m.telemetry.load({})), "") << n;
		EXPECT_EQ(error_of(m.telemetry.unload(false, false)), "") << n;
		EXPECT_TRUE(m.host.pinned.empty()) << n;
		EXPECT_TRUE(m.host.dirs.empty()) << n;
	}
}

TEST(BpfTelemetry, DryRunChangesNothing)
{
	TelemetryMachine m;
	TelemetryRequest r;

	ASSERT_EQ(error_of(m.load_swift()), "");
	const std::string before = m.host.world();

	r.dry_run = true;
	const BpfReport report = m.telemetry.load(r);

	EXPECT_EQ(error_of(report), "");
	EXPECT_EQ(report.steps.size(), 3U);
	for (const std::string &step : report.steps)
		EXPECT_TRUE(step.starts_with("would ")) << step;
	EXPECT_EQ(m.host.world(), before);
	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	const std::string loaded = m.host.world();

	EXPECT_EQ(error_of(m.telemetry.unload(false, true)), "");
	EXPECT_EQ(error_of(m.telemetry.unload(true, true)), "");
	EXPECT_EQ(m.host.world(), loaded);
}

TEST(BpfTelemetry, SaysInOneLineWhatIsWrong)
{
	const auto load = [](const auto &change, TelemetryRequest r = {}) {
		TelemetryMachine m;

		change(m);
		return m.telemetry.load(r);
	};
	const auto with = [&](std::string TelemetryRequest::*field, const char *text) {
		TelemetryRequest r;

		r.*field = text;
		const BpfReport report = load([](TelemetryMachine &) {}, r);

		EXPECT_TRUE(report.usage) << text;
		return error_of(report);
	};

	EXPECT_NE(error_of(load([](TelemetryMachine &m) { m.host.can.btf = false; })).find("no BTF"), std::string::npos);
	EXPECT_NE(error_of(load([](TelemetryMachine &m) { m.host.can.bpffs = m.host.mountable = false; })).find("cannot mount bpffs"),
		  std::string::npos);
	EXPECT_EQ(error_of(load([](TelemetryMachine &m) { m.system.root = false; })), "needs root (--dry-run does not)");
	EXPECT_NE(error_of(load([](TelemetryMachine &m) { (void)m.telemetry.load({}); })).find("loaded already"),
		  std::string::npos);
	EXPECT_NE(error_of(load([](TelemetryMachine &m) { m.host.objects.erase(object); })).find("is built in"), std::string::npos);
	EXPECT_NE(error_of(load([](TelemetryMachine &m) { m.host.objects[object].maps[0].value_bytes = 8; })).find("another version"),
		  std::string::npos);
	EXPECT_EQ(with(&TelemetryRequest::v4_len, "33"), "--v4-len: '33' (allowed: 0 to 32)");
	EXPECT_EQ(with(&TelemetryRequest::v6_len, "x"), "--v6-len: 'x' (allowed: 0 to 128)");
	EXPECT_EQ(with(&TelemetryRequest::max_flows, "0"), "--flows: '0' (allowed: 64 to 1048576)");
	EXPECT_EQ(with(&TelemetryRequest::tx_one_in, "0"), "--tx: '0' (allowed: 1 to 1000000)");

	TelemetryRequest r;

	r.prefixes = {"10.1.2.3/16"};
	EXPECT_NE(error_of(load([](TelemetryMachine &) {}, r)).find("10.1.2.3/16"), std::string::npos);
	EXPECT_NE(error_of(TelemetryMachine().telemetry.unload(false, false)).find("not loaded"), std::string::npos);
}

TEST(BpfTelemetry, WithoutTheModuleItWaitsForIt)
{
	TelemetryMachine m;

	m.module(false);
	const BpfReport first = m.telemetry.load({});

	ASSERT_EQ(error_of(first), "");
	EXPECT_EQ(first.notes.size(), 1U);
	EXPECT_FALSE(m.telemetry.status()->module_attached);
	EXPECT_NE(error_of(m.telemetry.load({})).find("loaded already"), std::string::npos);
	m.module(true);
	EXPECT_EQ(error_of(m.telemetry.load({})), "");
	EXPECT_TRUE(m.telemetry.status()->module_attached);
	// It lets go again, and stays itself.
	EXPECT_EQ(error_of(m.telemetry.unload(true, false)), "");
	EXPECT_FALSE(m.telemetry.status()->module_attached);
	EXPECT_TRUE(m.host.exists(telemetry_pins + "/flows"));
	EXPECT_NE(error_of(m.telemetry.unload(true, false)).find("not attached"), std::string::npos);
}

TEST(BpfTelemetry, WatchesVariantsThatComeBeforeOrAfter)
{
	for (const bool before : {true, false}) {
		TelemetryMachine m;

		if (before) {
			ASSERT_EQ(error_of(m.load_swift()), "");
		}
		ASSERT_EQ(error_of(m.telemetry.load({})), "");
		if (!before) {
			ASSERT_EQ(error_of(m.load_swift()), "");
		}
		EXPECT_TRUE(m.watches("cong_control of the built-in"));
		EXPECT_EQ(m.on(), 1U);
		EXPECT_EQ(m.telemetry.status()->watched, std::vector<std::string>{"bpf_swift"});

		// After a swap the flows of the old programs are still seen, after two not.
		BpfLoadRequest r;

		r.name = "bpf_swift";
		r.file = "/tmp/second.bpf.o";
		ASSERT_EQ(error_of(m.variants.swap(r)), "");
		EXPECT_TRUE(m.watches("cong_control of the built-in"));
		EXPECT_TRUE(m.watches("cong_control of /tmp/second"));
		ASSERT_EQ(error_of(m.variants.swap(r)), "");
		EXPECT_FALSE(m.watches("cong_control of the built-in"));
		EXPECT_TRUE(m.watches("cong_control of /tmp/second"));

		// Gone, nothing of it is held.
		ASSERT_EQ(error_of(m.variants.unload("bpf_swift", false)), "");
		EXPECT_FALSE(m.watches("cong_control"));
		EXPECT_TRUE(m.telemetry.status()->watched.empty());
		EXPECT_EQ(error_of(m.telemetry.unload(false, false)), "");
		EXPECT_TRUE(m.host.pinned.empty());
	}
}

TEST(BpfTelemetry, AVariantThatCannotBeWatchedLoadsAllTheSame)
{
	TelemetryMachine m;

	m.host.objects["bpf_swift"].functions.clear();
	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	const BpfReport report = m.load_swift();

	EXPECT_EQ(error_of(report), "");
	ASSERT_FALSE(report.notes.empty());
	EXPECT_NE(report.notes.back().find("the telemetry does not watch it"), std::string::npos);
	EXPECT_EQ(m.on(), 0U);
}

TEST(BpfTelemetry, WaitsForAKernelThatIsOutOfMemoryForAMoment)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	m.host.no_memory = 3;
	EXPECT_EQ(error_of(m.load_swift()), "");
	EXPECT_EQ(m.host.no_memory, 0);
	EXPECT_EQ(m.on(), 1U);
}

TEST(BpfTelemetry, GivesUpOnAKernelThatStaysOutOfMemory)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	m.host.no_memory = 1000;
	const BpfReport report = m.load_swift();

	EXPECT_EQ(error_of(report), "");
	ASSERT_FALSE(report.notes.empty());
	EXPECT_NE(report.notes.back().find("the telemetry does not watch it: cannot write"), std::string::npos);
	EXPECT_GT(m.host.no_memory, 900);
	EXPECT_EQ(m.on(), 0U);
}

TEST(BpfTelemetry, UnloadTurnsTheVariantsOff)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.load_swift()), "");
	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	ASSERT_EQ(m.on(), 1U);
	ASSERT_EQ(error_of(m.telemetry.unload(false, false)), "");
	EXPECT_EQ(m.on(), 0U);
	EXPECT_FALSE(m.watches("cong_control"));
}

TEST(BpfTelemetry, IsNoCongestionControl)
{
	TelemetryMachine m;

	EXPECT_FALSE(check_bpf_name("telemetry"));
	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	const auto listing = m.variants.list();

	ASSERT_TRUE(listing);
	EXPECT_TRUE(listing->loaded.empty());
	EXPECT_TRUE(listing->telemetry);
}

/* --- Reading ------------------------------------------------------------------------------ */

TEST(Telemetry, NotLoadedIsSaid)
{
	TelemetryMachine m;
	const auto t = Telemetry::open(m.host);

	ASSERT_FALSE(t);
	EXPECT_EQ(t.error().code, ENOENT);
}

TEST(Telemetry, ReadsPrefixesOfAllCpusAndFlows)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	// Two CPUs, one after the other.
	BpfBytes two = bytes_of(prefix_with(10, 40000));
	const BpfBytes second = bytes_of(prefix_with(5, 90000));

	two.insert(two.end(), second.begin(), second.end());
	put(m.host, "prefixes", bytes_of(prefix_key("10.1.2.0/24", "swift")), two);
	put(m.host, "prefixes", bytes_of(prefix_key("fd00::/64", "bpf_swift")), bytes_of(prefix_with(1, 1)));
	put(m.host, "prefixes", bytes_of(prefix_key(nullptr, "swift")), bytes_of(prefix_with(3, 7)));

	BpfBytes counter = bytes_of(std::uint64_t{7});
	const BpfBytes more = bytes_of(std::uint64_t{11});

	counter.insert(counter.end(), more.begin(), more.end());
	put(m.host, "counters", bytes_of(std::uint32_t{TELEMETRY_SAMPLES}), counter);
	put(m.host, "counters", bytes_of(std::uint32_t{TELEMETRY_FLOWS}), bytes_of(std::uint64_t{5}));

	telemetry_flow_key key{};
	telemetry_flow flow{};
	const auto local = *BpfPrefix::parse("10.0.0.1");
	const auto remote = *BpfPrefix::parse("10.1.2.9");

	std::copy(local.address.begin(), local.address.end(), key.local);
	std::copy(remote.address.begin(), remote.address.end(), key.remote);
	key.local_port = 40000;
	key.remote_port = 80;
	flow.prefix = prefix_key("10.1.2.0/24", "swift");
	flow.cookie = 12;
	flow.last_ns = 99;
	flow.hops = 3;
	flow.losses = 4;
	flow.decisions[TCP_SWIFT_DECREASE_BOTH] = 6;
	flow.sums[TELEMETRY_TX] = 600;
	flow.buckets[TELEMETRY_TX][LogHistogram::bucket_of(100)] = 6;
	flow.sums[TELEMETRY_TX_NIC] = 12000;
	flow.buckets[TELEMETRY_TX_NIC][LogHistogram::bucket_of(4000)] = 3;
	put(m.host, "flows", bytes_of(key), bytes_of(flow));

	const auto t = Telemetry::open(m.host);

	ASSERT_TRUE(t);
	const auto r = t->read(std::nullopt);

	ASSERT_TRUE(r) << r.error().text();
	EXPECT_EQ(r->samples, 18U);
	EXPECT_EQ(r->flows_evicted, 4U);
	EXPECT_EQ(r->max_flows, 16384U);
	EXPECT_EQ(r->max_prefixes, 256U);
	EXPECT_TRUE(r->module_attached);
	ASSERT_EQ(r->prefixes.size(), 3U);
	EXPECT_EQ(prefix_text(r->prefixes[0].prefix), "10.1.2.0/24");
	EXPECT_EQ(r->prefixes[0].cc, "swift");
	EXPECT_EQ(r->prefixes[0].counts.samples(), 15U);
	EXPECT_EQ(r->prefixes[0].counts.losses, 4U);
	EXPECT_EQ(r->prefixes[0].counts.of(Telemetered::fabric).count(), 15U);
	EXPECT_EQ(r->prefixes[0].counts.of(Telemetered::fabric).sum(), 10U * 40000 + 5 * 90000);
	EXPECT_EQ(prefix_text(r->prefixes[1].prefix), "fd00::/64");
	EXPECT_EQ(prefix_text(r->prefixes[2].prefix), "other");
	ASSERT_EQ(r->flows.size(), 1U);
	EXPECT_EQ(r->flows[0].local.text(), "10.0.0.1:40000");
	EXPECT_EQ(r->flows[0].remote.text(), "10.1.2.9:80");
	EXPECT_EQ(r->flows[0].cookie, 12U);
	EXPECT_EQ(r->flows[0].counts.of(Decision::decrease_both), 6U);
	EXPECT_EQ(r->flows[0].netns, here);
	EXPECT_EQ(r->flows[0].counts.of(Telemetered::tx_host).sum(), 600U);
	EXPECT_EQ(r->flows[0].counts.of(Telemetered::tx_nic).sum(), 12000U);
	EXPECT_EQ(r->flows[0].counts.of(Telemetered::tx_nic).count(), 3U);
}

// Two containers may well have the same prefixes.
TEST(Telemetry, NamespacesAreNotMixed)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	put(m.host, "prefixes", bytes_of(prefix_key("10.1.2.0/24", "swift", here)), bytes_of(prefix_with(10, 40000)));
	put(m.host, "prefixes", bytes_of(prefix_key("10.1.2.0/24", "swift", elsewhere)), bytes_of(prefix_with(5, 90000)));
	put(m.host, "prefixes", bytes_of(prefix_key(nullptr, "swift")), bytes_of(prefix_with(3, 7)));
	for (const std::uint32_t netns : {here, elsewhere}) {
		telemetry_flow_key key{};
		telemetry_flow flow{};

		key.net = netns + 1000ULL;
		flow.last_ns = 1;
		flow.prefix = prefix_key("10.1.2.0/24", "swift", netns);
		put(m.host, "flows", bytes_of(key), bytes_of(flow));
	}
	const auto t = Telemetry::open(m.host);

	ASSERT_TRUE(t);
	const auto all = t->read(std::nullopt);

	ASSERT_TRUE(all);
	ASSERT_EQ(all->prefixes.size(), 3U);
	EXPECT_EQ(all->prefixes[0].netns, here);
	EXPECT_EQ(all->prefixes[0].counts.samples(), 10U);
	EXPECT_EQ(all->prefixes[1].netns, elsewhere);
	EXPECT_EQ(all->prefixes[1].counts.samples(), 5U);
	EXPECT_EQ(all->prefixes[2].netns, 0U);
	EXPECT_EQ(all->flows.size(), 2U);
	for (const auto &one : {t->read(elsewhere), t->read_prefixes(elsewhere)}) {
		ASSERT_TRUE(one);
		ASSERT_EQ(one->prefixes.size(), 2U);
		EXPECT_EQ(one->prefixes[0].counts.samples(), 5U);
		EXPECT_EQ(one->prefixes[0].netns, elsewhere);
		EXPECT_FALSE(one->prefixes[1].prefix) << "what found no place is of all";
	}
	ASSERT_EQ(t->read(elsewhere)->flows.size(), 1U);
	EXPECT_EQ(t->read(elsewhere)->flows[0].netns, elsewhere);

	// The one is not taken for the other's past.
	put(m.host, "prefixes", bytes_of(prefix_key("10.1.2.0/24", "swift", here)), bytes_of(prefix_with(11, 40000)));
	const auto d = t->read(std::nullopt)->since(*all);

	ASSERT_EQ(d.prefixes.size(), 1U);
	EXPECT_EQ(d.prefixes[0].netns, here);
	EXPECT_EQ(d.prefixes[0].counts.samples(), 1U);
}

namespace {

// Remembers which maps were read whole.
class CountingHost final : public FakeBpfHost {
public:
	Result<void> visit(const std::string &pin, const ShowEntry &show) const override
	{
		whole_reads.insert(pin);
		return FakeBpfHost::visit(pin, show);
	}

	mutable std::set<std::string> whole_reads;
};

} // namespace

// A flow's record is 3.8 kB, and there are thousands of them.
TEST(Telemetry, ReadingThePrefixesLeavesTheFlowsAlone)
{
	CountingHost host;
	FakeBpfSystem system(host);

	host.objects[object] = telemetry_file();
	ASSERT_EQ(error_of(BpfTelemetry(system, host).load({})), "");
	put(host, "prefixes", bytes_of(prefix_key("10.1.2.0/24", "swift")), bytes_of(prefix_with(10, 40000)));
	telemetry_flow flow{};

	flow.last_ns = 1;
	put(host, "flows", bytes_of(telemetry_flow_key{}), bytes_of(flow));
	host.whole_reads.clear();
	const auto t = Telemetry::open(host);
	const auto r = t->read_prefixes(std::nullopt);

	ASSERT_TRUE(r);
	ASSERT_EQ(r->prefixes.size(), 1U);
	EXPECT_EQ(r->prefixes[0].counts.samples(), 10U);
	EXPECT_TRUE(r->flows.empty());
	EXPECT_FALSE(host.whole_reads.contains(telemetry_pins + "/flows"));
	EXPECT_EQ(t->read(std::nullopt)->flows.size(), 1U);
	EXPECT_TRUE(host.whole_reads.contains(telemetry_pins + "/flows"));
}

TEST(Telemetry, DifferenceOfTwoReadings)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	put(m.host, "prefixes", bytes_of(prefix_key("10.1.0.0/24", "swift")), bytes_of(prefix_with(10, 40000)));
	put(m.host, "prefixes", bytes_of(prefix_key("10.2.0.0/24", "swift")), bytes_of(prefix_with(10, 40000)));
	put(m.host, "prefixes", bytes_of(prefix_key("10.3.0.0/24", "swift")), bytes_of(prefix_with(10, 40000)));
	const auto before = Telemetry::open(m.host)->read(std::nullopt);

	put(m.host, "prefixes", bytes_of(prefix_key("10.1.0.0/24", "swift")), bytes_of(prefix_with(17, 40000)));
	put(m.host, "prefixes", bytes_of(prefix_key("10.3.0.0/24", "swift")), bytes_of(prefix_with(4, 40000)));
	put(m.host, "prefixes", bytes_of(prefix_key("10.4.0.0/24", "swift")), bytes_of(prefix_with(2, 40000)));
	const auto d = Telemetry::open(m.host)->read(std::nullopt)->since(*before);

	ASSERT_EQ(d.prefixes.size(), 3U); // nothing happened to 10.2
	EXPECT_EQ(d.prefixes[0].counts.samples(), 7U);
	EXPECT_EQ(d.prefixes[0].counts.of(Telemetered::fabric).count(), 7U);
	EXPECT_EQ(d.prefixes[0].counts.losses, 0U);
	EXPECT_EQ(d.prefixes[1].counts.samples(), 4U); // that began anew
	EXPECT_EQ(d.prefixes[2].counts.samples(), 2U);
}

TEST(Telemetry, MapsOfAnotherVersionAreRefused)
{
	TelemetryMachine m;

	ASSERT_EQ(error_of(m.telemetry.load({})), "");
	m.host.pinned.at(telemetry_pins + "/prefixes")->map.value_bytes = 12;
	const auto t = Telemetry::open(m.host);

	ASSERT_FALSE(t);
	EXPECT_NE(t.error().text().find("another version"), std::string::npos);
}

/* --- swiftctl delays ------------------------------------------------------------------------ */

namespace {

TelemetryReading reading()
{
	TelemetryReading r;
	TelemetryPrefix p{*Prefix::parse("10.1.0.0/24"), "swift", {}};

	p.counts.decisions = {0, 60, 20, 15, 4, 1};
	for (std::uint32_t i = 0; i < 100; i++) {
		p.counts.histograms[0].add(80000 + i * 100);
		p.counts.histograms[5].add(50000);
	}
	r.prefixes = {p, {*Prefix::parse("fd00::/64"), "bpf_timely", {}}, {std::nullopt, "swift", {}}};
	r.prefixes[0].netns = r.prefixes[1].netns = here;
	r.prefixes[1].counts.decisions[1] = 500;
	TelemetryFlow f;

	f.local = {*Address::parse("10.0.0.1"), 1};
	f.remote = {*Address::parse("10.1.0.7"), 80};
	f.cc = "swift";
	f.prefix = p.prefix;
	f.cookie = 3;
	f.counts = p.counts;
	r.flows = {f};
	r.module_attached = true;
	return r;
}

DelaysQuery query(const DelaysOptions &o)
{
	const auto q = DelaysQuery::from(o);

	EXPECT_TRUE(q);
	return *q;
}

} // namespace

TEST(Delays, RowsByPrefixOrFlowAndDestination)
{
	DelaysOptions o;

	EXPECT_EQ(delays_rows(reading(), query(o)).size(), 3U);
	EXPECT_EQ(delays_rows(reading(), query(o))[0].name, "fd00::/64"); // most samples first
	o.dst = {"10.0.0.0/8"};
	ASSERT_EQ(delays_rows(reading(), query(o)).size(), 1U);
	o.dst = {"10.1.0.0/25"}; // a prefix is not within a longer one
	EXPECT_TRUE(delays_rows(reading(), query(o)).empty());
	EXPECT_EQ(delays_notes(reading(), {}, query(o)),
		  std::vector<std::string>{"none of 3 prefixes is within --dst (a host within a prefix: --by flow)"});
	o.by = "flow";
	ASSERT_EQ(delays_rows(reading(), query(o)).size(), 1U);
	EXPECT_EQ(delays_rows(reading(), query(o))[0].name, "10.0.0.1:1 > 10.1.0.7:80");
}

TEST(Delays, ATableWithColoursOnlyWhereTheyAreWanted)
{
	const auto rows = delays_rows(reading(), query({}));
	const Table table = delays_table(rows, query({}));
	const auto lines = render(table, Terminal{}).lines;

	ASSERT_EQ(lines.size(), 4U);
	EXPECT_NE(lines[2].find("16.0/5.0"), std::string::npos) << lines[2]; // 15 + 1 and 4 + 1 of 100
	for (const std::string &line : lines)
		EXPECT_EQ(line.find('\x1b'), std::string::npos);
	EXPECT_EQ(table.rows[1][3].colour, Colour::red); // above its target
	EXPECT_EQ(table.rows[0][3].text, "-");
}

TEST(Delays, AColumnForTheNamespaceWhereThereIsMoreThanOne)
{
	TelemetryReading r = reading();
	DelaysOptions o;

	o.all_netns = true;
	r.prefixes[0].netns = here;
	r.prefixes[1].netns = elsewhere;
	const auto rows = delays_rows(r, query(o));
	const auto lines = render(delays_table(rows, query(o)), Terminal{}).lines;

	ASSERT_EQ(lines.size(), 4U);
	EXPECT_NE(lines[0].find(" netns "), std::string::npos) << lines[0];
	EXPECT_NE(lines[1].find(std::to_string(elsewhere)), std::string::npos) << lines[1];
	EXPECT_NE(lines[2].find(std::to_string(here)), std::string::npos) << lines[2];
	EXPECT_NE(lines[3].find(" all "), std::string::npos) << lines[3];
	EXPECT_EQ(render(delays_table(rows, query({})), Terminal{}).lines[0].find("netns"), std::string::npos);
	EXPECT_NE(delays_histograms(rows, query(o), Terminal{})[1].find(std::to_string(elsewhere)), std::string::npos);
	o.netns = "web";
	EXPECT_FALSE(DelaysQuery::from(o));
}

TEST(Delays, TheNicsShareIsBesideTheHosts)
{
	TelemetryReading r = reading();

	r.tx_one_in = 8;
	r.prefixes[0].counts.histograms[static_cast<std::size_t>(Telemetered::tx_nic)].add(5'000'000, 20);
	const auto rows = delays_rows(r, query({}));
	const Table table = delays_table(rows, query({}));
	std::size_t at = 0;

	while (at < table.columns.size() && table.columns[at].title != "nic_us")
		at++;
	ASSERT_LT(at, table.columns.size());
	EXPECT_EQ(table.columns[at - 1].title, "tx_us");
	EXPECT_EQ(table.rows[0][at].text, "-");
	EXPECT_NEAR(std::stod(table.rows[1][at].text), 5000, 5000 * 0.125);
	const auto lines = delays_histograms(rows, query({}), Terminal{});

	EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string &l) {
		return l.find("nic: driver to its release: mean 5000") != std::string::npos;
	}));
	const auto j = nlohmann::json::parse(delays_json(r, query({})));

	EXPECT_EQ(j["prefixes"][0]["tx_nic_ns"]["count"], 20);
	EXPECT_EQ(j["prefixes"][0]["tx_host_ns"]["count"], 0);
	// Where the kernel cannot tell it, that is said.
	EXPECT_FALSE(j["tx_nic_watched"].get<bool>());
	ASSERT_EQ(delays_notes(r, rows, query({})).size(), 1U);
	EXPECT_NE(delays_notes(r, rows, query({}))[0].find("nic is not measured"), std::string::npos);
	r.tx_nic_attached = true;
	EXPECT_TRUE(delays_notes(r, rows, query({})).empty());
}

TEST(Delays, PicturesAddUp)
{
	const auto rows = delays_rows(reading(), query({}));
	const auto lines = delays_histograms(rows, query({}), Terminal{});
	double percent = 0;

	for (const std::string &line : lines) {
		EXPECT_EQ(line.find('\x1b'), std::string::npos);
		if (const auto bar = line.rfind('|'); bar != std::string::npos)
			percent += std::stod(line.substr(bar + 1));
	}
	EXPECT_NEAR(percent, 100, 0.2);
	Terminal colourful;

	colourful.is_terminal = colourful.colours = true;
	const auto painted = delays_histograms(rows, query({}), colourful);

	EXPECT_TRUE(std::any_of(painted.begin(), painted.end(),
				[](const std::string &l) { return l.find('\x1b') != std::string::npos; }));
}

TEST(Delays, JsonHasAll)
{
	DelaysOptions o;

	o.json = true;
	o.interval = "2";
	TelemetryReading before, r = reading();

	EXPECT_EQ(nlohmann::json::parse(delays_json(r, query(o)))["interval_s"], nullptr);
	// As long as it was, should somebody have stopped it.
	before.time_ns = 5'000'000'000;
	r.time_ns = 6'500'000'000;
	r.interval_ns = r.since(before).interval_ns;
	const auto j = nlohmann::json::parse(delays_json(r, query(o)));

	EXPECT_EQ(j["schema"], 1);
	EXPECT_EQ(j["interval_s"], 1.5);
	ASSERT_EQ(j["prefixes"].size(), 3U);
	const auto &p = j["prefixes"][0];

	EXPECT_EQ(p["dst_prefix"], "10.1.0.0/24");
	EXPECT_EQ(p["samples"], 100);
	EXPECT_EQ(p["decisions"]["decrease_fabric"], 15);
	std::uint64_t sum = 0;

	for (const auto &b : p["fabric_ns"]["buckets"])
		sum += b["count"].get<std::uint64_t>();
	EXPECT_EQ(sum, 100U);
	EXPECT_EQ(p["netns"], here);
	EXPECT_TRUE(j["prefixes"][2]["netns"].is_null());
	EXPECT_EQ(p["remote_ns"]["count"], 0);
	EXPECT_FALSE(p["remote_ns"].contains("p50"));
	EXPECT_EQ(j["flows"][0]["cookie"], 3);
}

TEST(Delays, NotesOnFullMaps)
{
	TelemetryReading r = reading();

	EXPECT_TRUE(delays_notes(r, delays_rows(r, query({})), query({})).empty());
	r.flows_evicted = 3;
	r.in_other = 4;
	r.missed = 1;
	r.module_attached = false;
	EXPECT_EQ(delays_notes(r, delays_rows(r, query({})), query({})).size(), 4U);
}

TEST(Delays, CommandLine)
{
	const auto ok = swift_test::parsed<DelaysOptions>({"--by", "flow", "--dst", "10.0.0.0/8", "--interval", "5", "--hist"});

	ASSERT_TRUE(ok);
	EXPECT_EQ(ok->interval, "5");
	EXPECT_TRUE(swift_test::parsed<DelaysOptions>({"--all-netns"})->all_netns);
	for (const DelaysOptions &wrong :
	     {DelaysOptions{"host", {}, "", false, false, false, "", false},
	      DelaysOptions{"flow", {"x"}, "", false, false, false, "", false},
	      DelaysOptions{"flow", {}, "0", false, false, false, "", false},
	      DelaysOptions{"flow", {}, "", true, false, true, "", false},
	      DelaysOptions{"flow", {}, "", false, false, false, "web", true}})
		EXPECT_FALSE(DelaysQuery::from(wrong));
	const auto load = swift_test::parsed<BpfOptions>({"load", "telemetry", "--tx", "64", "--prefix", "10.0.0.0/8"});

	ASSERT_TRUE(load);
	EXPECT_EQ(load->telemetry.tx_one_in, "64");
}

/* --- swiftctl flows beside other laws ------------------------------------------------------ */

TEST(Flows, OtherLawsShowWhatTcpHas)
{
	Flow swift;
	Flow timely;
	Flow cubic;

	swift.cc = "swift";
	timely.cc = "bpf_timely";
	timely.tcp.emplace().srtt_us = 321;
	timely.tcp->delivery_rate_Bps = 1500000;
	cubic.cc = "cubic";
	FlowSnapshot snapshot;

	choose({swift, timely, cubic}, *FlowQuery::from({}), snapshot);
	ASSERT_EQ(snapshot.flows.size(), 2U);
	EXPECT_EQ(snapshot.other_count, 1U);
	EXPECT_EQ(snapshot.swift_count, 1U);

	const auto lines = render(flow_table(snapshot.flows), Terminal{}).lines;
	std::string all;

	for (const std::string &line : lines)
		all += line + "\n";
	EXPECT_NE(lines[0].find(" cc "), std::string::npos) << lines[0];
	EXPECT_NE(all.find("bpf_timely"), std::string::npos);
	EXPECT_NE(all.find("321"), std::string::npos);
	EXPECT_NE(all.find("1.50M"), std::string::npos);
	// One alone needs no column.
	EXPECT_EQ(render(flow_table({timely}), Terminal{}).lines[0].find(" cc "), std::string::npos);
}
