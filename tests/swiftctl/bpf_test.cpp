// SPDX-License-Identifier: MIT
// `swiftctl bpf` on a made-up kernel: all or nothing, after any failure and any kill; values,
// ranges and prefixes. The real kernel is bpf_native_test.cpp's.
#include "bpf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "diag.h"
#include "dump_builder.h"
#include "fake_bpf_host.h"
#include "flows.h"

using namespace swift;
using swift_test::error_of;
using swift_test::FakeBpfFile;
using swift_test::FakeBpfHost;
using swift_test::FakeBpfSystem;

namespace {

constexpr const char *second = "/tmp/second.bpf.o";
const std::string variant_dir = "/sys/fs/bpf/tcp_swift/bpf_swift";

struct VariantMachine {
	FakeBpfHost host;
	FakeBpfSystem system{host};
	BpfVariants variants{system, system, host};

	VariantMachine() { host.files[second] = {}; }

	std::string world() const
	{
		std::string s = host.world();

		for (const auto &[path, content] : system.files)
			s += path + " = " + content + "\n";
		return s;
	}
	BpfReport load(bool plain = false, bool make_default = false)
	{
		BpfLoadRequest r;

		r.name = "bpf_swift";
		r.plain = plain;
		r.make_default = make_default;
		return variants.load(r);
	}
	BpfReport swap()
	{
		BpfLoadRequest r;

		r.name = "bpf_swift";
		r.file = second;
		return variants.swap(r);
	}
	BpfReport set(const std::string &assignment, const std::string &prefix = "", bool erase = false)
	{
		return variants.set({"bpf_swift", assignment.empty() ? std::vector<std::string>() :
								       std::vector{assignment},
				     prefix, erase, false});
	}
};

std::uint32_t value_of(const BpfLaw &law, const BpfValues &values, std::string_view name)
{
	for (std::size_t i = 0; i < values.size(); i++)
		if (law.tunables[i].name == name)
			return values[i];
	ADD_FAILURE() << name;
	return 0;
}

} // namespace

TEST(BpfLaw, defaults_are_prepared)
{
	ASSERT_EQ(bpf_laws().size(), 3U);
	for (const BpfLaw &law : bpf_laws()) {
		const auto params = law.prepare(law.defaults("x"));

		ASSERT_TRUE(params) << law.name;
		EXPECT_EQ(params->size(), law.params_bytes);
	}
	const BpfLaw &swift_law = bpf_laws()[0];

	EXPECT_EQ(value_of(swift_law, swift_law.defaults("bpf_swift"), "split"), 1U);
	EXPECT_EQ(value_of(swift_law, swift_law.defaults("bpf_swift_v0"), "split"), 0U);
}

TEST(BpfLaw, every_tunable_is_held_to_its_range)
{
	for (const BpfLaw &law : bpf_laws())
		for (const BpfTunable &t : law.tunables) {
			BpfValues values = law.defaults("x");
			const BpfValues before = values;
			const std::string name(t.name);

			for (const std::string &bad :
			     {name + "=", name + "=x", name + "=" + std::to_string(std::int64_t{t.max} + 1),
			      name + "=" + std::to_string(std::int64_t{t.min} - 1), name + "=99999999999999999999"}) {
				const auto ok = law.assign(values, bad);

				ASSERT_FALSE(ok) << bad;
				EXPECT_NE(ok.error().text().find(name), std::string::npos);
				EXPECT_FALSE(ok.error().allowed.empty()) << bad;
				EXPECT_EQ(values, before) << bad;
			}
			EXPECT_TRUE(law.assign(values, name + "=" + t.text(static_cast<std::uint32_t>(t.max))))
				<< name;
			EXPECT_EQ(t.number(value_of(law, values, t.name)), t.max);
			EXPECT_TRUE(law.assign(values, name + "=" + t.text(static_cast<std::uint32_t>(t.min)))) << name;
			// Past assign(): prepare() holds them too.
			values = before;
			values[static_cast<std::size_t>(&t - law.tunables.data())] =
				static_cast<std::uint32_t>(t.max + 1);
			EXPECT_FALSE(law.prepare(values)) << name;
		}
}

TEST(BpfLaw, contradictions_name_what_is_allowed)
{
	const BpfLaw &law = bpf_laws()[0];
	BpfValues values = law.defaults("x");

	ASSERT_TRUE(law.assign(values, "fs_max_cwnd_milli=2"));
	ASSERT_TRUE(law.assign(values, "fs_min_cwnd_milli=2"));
	EXPECT_EQ(law.prepare(values).error().text(),
		  "fs_max_cwnd_milli: '2' (allowed: at least twice fs_min_cwnd_milli)");

	const BpfLaw &timely = bpf_laws()[1];

	values = timely.defaults("x");
	ASSERT_TRUE(timely.assign(values, "init_rate_mbps=20000"));
	EXPECT_EQ(timely.prepare(values).error().text(),
		  "init_rate_mbps: '20000' (allowed: min_rate_mbps to max_rate_mbps)");
	EXPECT_NE(law.assign(values, "bogus=1").error().text().find("base_target_ns, "), std::string::npos);
	EXPECT_FALSE(law.assign(values, "bogus"));
	EXPECT_FALSE(law.assign(values, "target_policy=1"));
	EXPECT_TRUE(law.assign(values = law.defaults("x"), "target_policy=static"));
}

TEST(BpfLaw, a_class_of_its_own)
{
	for (const BpfLaw &law : bpf_laws()) {
		BpfValues values = law.defaults("x");
		const auto dscp = [&] {
			const auto params = law.prepare(values);
			std::int32_t out = -2;

			// The last word but for padding: bpf/maps.h.
			EXPECT_TRUE(params);
			std::memcpy(&out, params->data() + params->size() - (law.name == "timely" ? 8 : 4), sizeof(out));
			return out;
		};

		EXPECT_EQ(dscp(), -1) << law.name;
		ASSERT_TRUE(law.assign(values, "dscp=46"));
		EXPECT_EQ(dscp(), 46) << law.name;
		ASSERT_TRUE(law.assign(values, "dscp=-1"));
		EXPECT_EQ(dscp(), -1) << law.name;
		EXPECT_EQ(law.assign(values, "dscp=64").error().text(), "dscp: '64' (allowed: -1 to 63)");
		EXPECT_EQ(law.tunables.back().name, "dscp");
		EXPECT_EQ(law.tunables.back().text(values.back()), "-1");
	}
}

TEST(BpfPrefix, keys)
{
	struct Case {
		const char *text;
		std::uint32_t length;
		std::vector<int> head; // of the address
		const char *shown;
	};
	const Case cases[] = {
		{"10.1.0.0/16", 112, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 0, 0}, "10.1.0.0/16"},
		{"10.1.2.3", 128, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3}, "10.1.2.3/32"},
		{"0.0.0.0/0", 96, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, "0.0.0.0/0"},
		{"::/0", 0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "::/0"},
		{"fd00:1::/32", 32, {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "fd00:1::/32"},
		{"10.128.0.0/9", 105, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 128, 0, 0}, "10.128.0.0/9"},
		{"fd00::1", 128, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "fd00::1/128"},
	};

	for (const Case &c : cases) {
		const auto key = BpfPrefix::parse(c.text);

		ASSERT_TRUE(key) << c.text << ": " << key.error().text();
		EXPECT_EQ(key->length, c.length) << c.text;
		EXPECT_EQ(std::vector<int>(key->address.begin(), key->address.end()), c.head) << c.text;
		EXPECT_EQ(key->text(), c.shown);
	}
	for (const char *bad : {"", "x", "10.1.0.0/33", "10.1.0.0/-1", "10.1.0.0/", "10.1/16", "fd00::/129",
				"::ffff:10.0.0.0/104", "10.1.0.0/16x"})
		EXPECT_FALSE(BpfPrefix::parse(bad)) << bad;
	EXPECT_EQ(BpfPrefix::parse("10.1.2.3/16").error().text(),
		  "a prefix with bits beyond its length: '10.1.2.3/16' (allowed: 10.1.0.0/16)");
	EXPECT_EQ(BpfPrefix::parse("fd00:1::5/32").error().allowed, "fd00:1::/32");
}

namespace {

// The answer to a request for socket storages: nests of (map id, value).
std::string storages(const std::vector<std::string> &values)
{
	const auto attribute = [](unsigned type, const std::string &data) {
		nlattr head{};
		std::string s;

		head.nla_len = static_cast<std::uint16_t>(sizeof(head) + data.size());
		head.nla_type = static_cast<std::uint16_t>(type);
		s.assign(reinterpret_cast<const char *>(&head), sizeof(head));
		s += data;
		return s + std::string((4 - s.size() % 4) % 4, '\0');
	};
	std::string all;

	for (const std::string &value : values)
		all += attribute(SK_DIAG_BPF_STORAGE | NLA_F_NESTED,
				 attribute(SK_DIAG_BPF_STORAGE_MAP_ID, std::string("\x07\0\0\0", 4)) +
					 attribute(SK_DIAG_BPF_STORAGE_MAP_VALUE, value));
	return all;
}

std::string record(std::uint32_t target_ns)
{
	const std::uint32_t words[] = {40000 | TCP_SWIFT_SOURCE_SOFTWARE, 1000, target_ns, 3 << 16, 5 << 16};

	return std::string(reinterpret_cast<const char *>(words), sizeof(words)) + std::string(40, 'x');
}

std::vector<Flow> flows_of(const std::string &nested, const char *cc, DiagStatus &status)
{
	swift_test::DumpBuilder b;
	std::vector<Flow> flows;

	b.socket("10.0.0.1", 1, "10.0.0.2", 2).cong(cc);
	b.attribute(INET_DIAG_SK_BPF_STORAGES, nested.data(), nested.size());
	b.done();
	status = parse_diag(b.bytes(), flows);
	return flows;
}

} // namespace

TEST(BpfFlows, the_record_comes_out_of_the_socket_storage)
{
	DiagStatus status;
	const auto flows = flows_of(storages({std::string(60, '\0'), record(25000)}), "bpf_swift", status);

	ASSERT_EQ(flows.size(), 1U);
	ASSERT_TRUE(flows[0].swift);
	EXPECT_TRUE(flows[0].runs_swift());
	EXPECT_FALSE(flows[0].uses_module());
	EXPECT_EQ(flows[0].swift->fabric_ns, 40000U);
	EXPECT_EQ(flows[0].swift->target_ns, 25000U);
	EXPECT_EQ(flows[0].swift->local_stamp, Stamp::software);
	EXPECT_EQ(status.malformed + status.bad_records, 0U);

	FlowSnapshot snapshot;

	choose(flows, *FlowQuery::from({}), snapshot);
	EXPECT_EQ(snapshot.swift_count, 1U);
	EXPECT_EQ(snapshot.flows.size(), 1U);
	EXPECT_NE(flows_json(snapshot, true).find("\"cc\":\"bpf_swift\""), std::string::npos);
}

TEST(BpfFlows, storage_without_a_record_is_no_swift_flow)
{
	DiagStatus status;

	EXPECT_FALSE(flows_of(storages({std::string(60, '\0')}), "reno", status)[0].runs_swift());
	EXPECT_FALSE(flows_of("", "bpf_gcn", status)[0].runs_swift());
	EXPECT_FALSE(flows_of(storages({"short"}), "bpf_swift", status)[0].runs_swift());
	EXPECT_EQ(status.bad_records, 1U);
}

TEST(BpfFlows, storage_that_is_cut_anywhere_is_counted)
{
	const std::string whole = storages({record(25000)});

	for (std::size_t n = 1; n < whole.size(); n++) {
		DiagStatus status;

		flows_of(whole.substr(0, n), "bpf_swift", status);
		EXPECT_EQ(status.malformed > 0, true) << n;
	}
}

TEST(Bpf, load_says_how_and_unload_leaves_nothing)
{
	for (const bool plain : {false, true}) {
		VariantMachine m;
		const std::string before = m.world();
		const BpfReport loaded = m.load(plain, true);

		ASSERT_FALSE(loaded.error) << error_of(loaded);
		EXPECT_EQ(loaded.registration, plain ? "plain" : "link");
		EXPECT_TRUE(m.host.available().contains("bpf_swift"));
		EXPECT_EQ(m.system.files["/proc/sys/net/ipv4/tcp_congestion_control"], "bpf_swift\n");

		const auto listing = m.variants.list();

		ASSERT_TRUE(listing);
		ASSERT_EQ(listing->loaded.size(), 1U);
		EXPECT_EQ(listing->loaded[0].registration, plain ? "plain" : "link");
		EXPECT_EQ(listing->loaded[0].cgroups, std::vector<std::string>{"/sys/fs/cgroup"});
		EXPECT_EQ(listing->loaded[0].programs.size(), 3U);
		EXPECT_EQ(listing->loaded[0].law, "swift");
		EXPECT_TRUE(listing->loaded[0].is_default);

		const BpfReport unloaded = m.variants.unload("bpf_swift", false);

		EXPECT_FALSE(unloaded.error) << error_of(unloaded);
		EXPECT_EQ(m.system.files["/proc/sys/net/ipv4/tcp_congestion_control"], "cubic\n");
		// The fake, like the kernel, leaves a former default allowed.
		m.system.files["/proc/sys/net/ipv4/tcp_allowed_congestion_control"] = "cubic reno\n";
		EXPECT_EQ(m.world(), before);
		EXPECT_EQ(error_of(m.variants.unload("bpf_swift", false)), "not loaded: 'bpf_swift'");
	}
}

TEST(Bpf, a_default_that_goes_before_the_one_after_it_hands_on_what_was_before)
{
	VariantMachine m;
	auto &cc = m.system.files["/proc/sys/net/ipv4/tcp_congestion_control"];
	BpfLoadRequest second_one;

	m.host.objects["bpf_swift_v0"].ops = m.host.objects["bpf_swift_v0"].registers = "bpf_swift_v0";
	m.system.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	cc = "reno\n";
	ASSERT_FALSE(m.load(false, true).error);
	second_one.name = "bpf_swift_v0";
	second_one.make_default = true;
	const BpfReport loaded = m.variants.load(second_one);
	ASSERT_FALSE(loaded.error) << error_of(loaded);
	EXPECT_EQ(cc, "bpf_swift_v0\n");
	ASSERT_FALSE(m.variants.unload("bpf_swift", false).error);
	EXPECT_EQ(cc, "bpf_swift_v0\n");
	ASSERT_FALSE(m.variants.unload("bpf_swift_v0", false).error);
	EXPECT_EQ(cc, "reno\n");
}

TEST(Bpf, list_sums_the_stamps_of_all_cpus)
{
	VariantMachine m;

	ASSERT_FALSE(m.load().error);
	EXPECT_TRUE(m.variants.list()->loaded.at(0).stamps.empty());
	EXPECT_NE(bpf_list_json(*m.variants.list()).find("\"stamps\": null"), std::string::npos);

	BpfBytes counts(std::size_t{2} * 7 * 8); // two CPUs, seven counters

	counts[0] = std::byte{5}; // stamps_hardware
	counts[7 * 8] = std::byte{6};
	counts[7 * 8 + 3 * 8] = std::byte{9}; // stamps_no_clock
	auto thing = std::make_shared<FakeBpfHost::Thing>();

	thing->content[BpfBytes(4)] = counts;
	m.host.pinned[variant_dir + "/swift_stamps"] = thing;

	const auto listing = m.variants.list();
	const auto json = nlohmann::json::parse(bpf_list_json(*listing));

	EXPECT_EQ(json["loaded"][0]["stamps"]["stamps_hardware"], 11);
	EXPECT_EQ(json["loaded"][0]["stamps"]["stamps_no_clock"], 9);
	EXPECT_EQ(json["loaded"][0]["stamps"]["stamps_old"], 0);
	const auto notes = bpf_notes(*listing);

	EXPECT_TRUE(std::find(notes.begin(), notes.end(),
			      "bpf_swift counts packets' receive stamps: stamps_hardware 11, stamps_no_clock 9") !=
		    notes.end());
}

TEST(Bpf, a_load_that_fails_anywhere_leaves_nothing)
{
	for (const bool plain : {false, true}) {
		VariantMachine whole;

		ASSERT_FALSE(whole.load(plain).error);
		ASSERT_GE(whole.host.operations, 19);
		for (int at = 1; at <= whole.host.operations; at++) {
			VariantMachine m;
			const std::string before = m.world();

			m.host.fail_at = at;
			const BpfReport r = m.load(plain);

			ASSERT_TRUE(r.error) << at;
			EXPECT_TRUE(r.steps.empty()) << at;
			EXPECT_EQ(m.world(), before) << at << ": " << error_of(r);
		}
	}
}

TEST(Bpf, a_default_that_cannot_be_set_takes_the_load_back)
{
	for (int at = 1; at <= 2; at++) {
		VariantMachine m;
		const std::string before = m.world();

		m.system.fail_at = at;
		EXPECT_TRUE(m.load(false, true).error);
		EXPECT_EQ(m.world(), before) << at;
	}
}

TEST(Bpf, a_killed_load_is_mended_by_load_and_by_unload)
{
	for (const bool plain : {false, true}) {
		VariantMachine whole;
		const std::string empty = whole.world();

		ASSERT_FALSE(whole.load(plain).error);
		const std::string loaded = whole.world();

		for (int at = 1; at <= whole.host.operations; at++)
			for (const bool by_load : {true, false}) {
				VariantMachine m;

				m.host.fail_at = at;
				m.host.dead_after = true;
				ASSERT_TRUE(m.load(plain).error);
				m.host.fail_at = 0;
				if (by_load) {
					const BpfReport r = m.load(plain);

					EXPECT_FALSE(r.error) << at << ": " << error_of(r);
					EXPECT_EQ(m.world(), loaded) << at;
				} else if (m.host.exists(variant_dir) || m.host.exists(variant_dir + "~new")) {
					const auto listing = m.variants.list();

					EXPECT_TRUE(listing->loaded.at(0).leftover) << at;
					EXPECT_FALSE(m.variants.unload("bpf_swift", false).error) << at;
					EXPECT_EQ(m.world(), empty) << at;
				} else {
					m.host.dirs.erase("/sys/fs/bpf/tcp_swift"); // empty
					EXPECT_EQ(m.world(), empty) << at;
				}
			}
	}
}

TEST(Bpf, swap_keeps_settings_and_says_whether_it_was_atomic)
{
	for (const bool plain : {false, true}) {
		VariantMachine m;

		ASSERT_FALSE(m.load(plain).error);
		ASSERT_FALSE(m.set("ai_milli=500").error);
		ASSERT_FALSE(m.set("base_target_ns=90000", "10.1.0.0/16").error);

		const BpfReport r = m.swap();

		ASSERT_FALSE(r.error) << error_of(r);
		EXPECT_EQ(r.registration, plain ? "plain" : "link");
		EXPECT_EQ(r.steps.at(1).find("atomically") != std::string::npos, !plain) << r.steps[1];
		EXPECT_TRUE(m.host.available().contains("bpf_swift"));
		EXPECT_FALSE(m.host.exists(variant_dir + "~new"));
		EXPECT_EQ(m.host.pinned.at(variant_dir + "/prog_swift_echo")->program, std::string("swift_echo of ") + second);
		EXPECT_EQ(m.host.pinned.at(variant_dir + "/link_swift_echo")->holds->program,
			  std::string("swift_echo of ") + second);

		const auto settings = m.variants.get("bpf_swift");

		ASSERT_TRUE(settings);
		EXPECT_EQ(value_of(*settings->law, settings->values, "ai_milli"), 500U);
		EXPECT_EQ(settings->profiles.size(), 1U);
		EXPECT_FALSE(settings->differs);
		// One link a program, the old ones are gone.
		std::size_t alive = 0;

		for (const auto &link : m.host.links)
			alive += link.expired() ? 0 : 1;
		EXPECT_EQ(alive, plain ? 2U : 3U);
		EXPECT_FALSE(m.variants.unload("bpf_swift", false).error);
		EXPECT_TRUE(m.host.pinned.empty());
	}
}

TEST(Bpf, a_swap_that_fails_anywhere_keeps_the_old_one)
{
	for (const bool plain : {false, true}) {
		int before_swap = 0;
		int after_swap = 0;
		{
			VariantMachine m;

			ASSERT_FALSE(m.load(plain).error);
			before_swap = m.host.operations;
			ASSERT_FALSE(m.swap().error);
			for (after_swap = before_swap; after_swap < m.host.operations; after_swap++)
				;
		}
		int failures = 0;

		for (int at = before_swap + 1; at <= after_swap; at++) {
			VariantMachine m;

			ASSERT_FALSE(m.load(plain).error);
			const std::string before = m.world();

			m.host.fail_at = at;
			const BpfReport r = m.swap();

			if (!r.error) // it was done by then, and only tidying up went wrong
				continue;
			failures++;
			EXPECT_EQ(m.world(), before) << at << ": " << error_of(r);
			EXPECT_TRUE(r.notes.empty()) << r.notes[0];
			// And it can be done again.
			m.host.fail_at = 0;
			EXPECT_FALSE(m.swap().error) << at;
		}
		EXPECT_GT(failures, 15);
	}
}

TEST(Bpf, a_killed_swap_leaves_one_that_swap_and_unload_can_handle)
{
	for (const bool plain : {false, true})
		for (int at = 1; at <= 60; at++) {
			VariantMachine m;
			const std::string empty = m.world();

			ASSERT_FALSE(m.load(plain).error);
			m.host.fail_at = m.host.operations + at;
			m.host.dead_after = true;
			(void)m.swap();
			m.host.fail_at = 0;
			const BpfReport r = m.swap();

			EXPECT_FALSE(r.error) << plain << at << ": " << error_of(r);
			EXPECT_TRUE(m.host.available().contains("bpf_swift")) << plain << at;
			EXPECT_FALSE(m.host.exists(variant_dir + "~new")) << plain << at;
			EXPECT_FALSE(m.variants.unload("bpf_swift", false).error) << plain << at;
			EXPECT_EQ(m.world(), empty) << plain << at;
		}
}

TEST(Bpf, what_cannot_be_swapped)
{
	VariantMachine m;

	EXPECT_EQ(error_of(m.swap()), "bpf_swift is not loaded: swiftctl bpf load does that");
	ASSERT_FALSE(m.load().error);
	const std::string before = m.world();

	m.host.files[second].maps[1].max_entries = 7;
	EXPECT_NE(error_of(m.swap()).find("map swift_profiles of /tmp/second.bpf.o has another layout"),
		  std::string::npos);
	m.host.files[second] = {};
	m.host.files[second].maps[0].value_bytes = 88;
	EXPECT_NE(error_of(m.swap()).find("different versions"), std::string::npos);
	m.host.files[second] = {};
	// Loaded by a swiftctl that knew one tunable less.
	m.host.pinned.at(variant_dir + "/tunables")->map.value_bytes -= 4;
	EXPECT_NE(error_of(m.swap()).find("with other tunables: unload it and load the new one"), std::string::npos)
		<< error_of(m.swap());
	EXPECT_EQ(m.world(), before);
	m.host.pinned.at(variant_dir + "/tunables")->map.value_bytes += 4;
	m.host.files[second].refused_by_verifier = true;
	const BpfReport refused = m.swap();

	EXPECT_FALSE(refused.verifier_log.empty());
	m.host.files[second] = {};
	m.host.files[second].incomplete = true;
	EXPECT_TRUE(m.swap().error);
	m.host.files[second] = {};
	m.host.files[second].registers = "other";
	EXPECT_TRUE(m.swap().error);
	EXPECT_EQ(m.world(), before);
}

TEST(Bpf, what_cannot_be_loaded)
{
	const auto expect = [](const std::function<void(VariantMachine &, BpfLoadRequest &)> &change, const std::string &why,
			       bool usage = false) {
		VariantMachine m;
		BpfLoadRequest r;

		r.name = "bpf_swift";
		change(m, r);
		const std::string before = m.world();
		const BpfReport report = m.variants.load(r);

		EXPECT_NE(error_of(report).find(why), std::string::npos) << error_of(report) << "\nnot: " << why;
		EXPECT_EQ(report.usage, usage) << why;
		EXPECT_EQ(m.world(), before) << why;
	};
	const std::string name = "bpf_swift";

	expect([](VariantMachine &m, BpfLoadRequest &) { m.system.root = false; }, "needs root");
	expect([](VariantMachine &m, BpfLoadRequest &) { m.host.can.btf = false; }, "this kernel has no BTF");
	expect([](VariantMachine &m, BpfLoadRequest &) { m.host.can.struct_ops = false; }, "struct_ops");
	expect([](VariantMachine &m, BpfLoadRequest &) { m.host.can.bpffs = m.host.mountable = false; },
	       "cannot mount bpffs at /sys/fs/bpf");
	expect([](VariantMachine &m, BpfLoadRequest &) { m.host.names.insert("bpf_swift"); }, "taken by a module");
	expect([](VariantMachine &m, BpfLoadRequest &) {
		auto other = std::make_shared<FakeBpfHost::Thing>();

		other->ops = {77, "bpf_swift", BpfOpsStatus::State::in_use, 0, false};
		m.host.plain.push_back(other);
	}, "taken by a BPF program that swiftctl did not load (struct_ops map id 77)");
	expect([](VariantMachine &, BpfLoadRequest &r) { r.name = "bpf_none"; },
	       "no BPF object of this name is built in: 'bpf_none' (allowed: bpf_swift)");
	expect([](VariantMachine &, BpfLoadRequest &r) { r.name = "a/b"; }, "1 to 15", true);
	expect([](VariantMachine &, BpfLoadRequest &r) { r.name = "sixteen_letters_"; }, "1 to 15", true);
	expect([](VariantMachine &, BpfLoadRequest &r) { r.set = {"ai_milli=0"}; }, "ai_milli: '0' (allowed: 1 to 100000)", true);
	expect([](VariantMachine &, BpfLoadRequest &r) { r.set = {"fs_max_cwnd_milli=2", "fs_min_cwnd_milli=2"}; },
	       "at least twice", true);
	expect([&](VariantMachine &m, BpfLoadRequest &) { m.host.objects[name].ops = "bpf_cubic"; },
	       "another congestion control: 'bpf_cubic' (allowed: bpf_swift)");
	expect([&](VariantMachine &m, BpfLoadRequest &) { m.host.objects[name].registers = "other"; },
	       "registers another name: 'other' (allowed: bpf_swift)");
	expect([&](VariantMachine &m, BpfLoadRequest &) { m.host.objects[name].maps.clear(); }, "no map of tunables");
	expect([&](VariantMachine &m, BpfLoadRequest &) { m.host.objects[name].maps[0].value_bytes = 88; },
	       "values of 88 bytes, not 96");
	expect([&](VariantMachine &m, BpfLoadRequest &) { m.host.objects[name].refused_by_verifier = true; }, "verifier");
	expect([&](VariantMachine &m, BpfLoadRequest &) {
		m.host.objects[name].programs.push_back({"x", BpfProgramKind::other, "xdp"});
	}, "where to attach program x (xdp)");
	expect([](VariantMachine &m, BpfLoadRequest &) { m.system.files.erase("/proc/self/mounts"); }, "no cgroup2 is mounted");
}

TEST(Bpf, what_is_built_in_needs_no_file_and_bpffs_is_mounted)
{
	VariantMachine m;

	m.host.files.clear();
	m.host.can.bpffs = false;
	const BpfReport dry = m.variants.load({"bpf_swift", "", {}, "", true, false, false, true});

	EXPECT_EQ(error_of(dry), "");
	EXPECT_FALSE(m.host.can.bpffs);
	EXPECT_EQ(dry.notes.front(), "bpffs would be mounted at /sys/fs/bpf");

	const BpfReport r = m.load();

	EXPECT_EQ(error_of(r), "");
	EXPECT_TRUE(m.host.can.bpffs);
	EXPECT_EQ(r.notes.front(), "bpffs was not mounted: it is now, at /sys/fs/bpf");
	EXPECT_EQ(r.steps.front(), "loaded the built-in bpf_swift");
	// Where a newer program has it built in, a swap needs none either.
	EXPECT_EQ(error_of(m.variants.swap({"bpf_swift", "", {}, "", true, false, false, false})), "");
}

// As from another mount namespace.
TEST(Bpf, what_runs_is_listed_without_its_pins)
{
	for (const bool plain : {false, true}) {
		VariantMachine m;

		EXPECT_EQ(m.variants.list()->loadable, std::vector<std::string>{"bpf_swift"});
		ASSERT_FALSE(m.load(plain).error);
		m.host.pins_hidden = true;

		const auto listing = m.variants.list();

		ASSERT_EQ(listing->loaded.size(), 1U);
		const BpfStatus &s = listing->loaded[0];

		EXPECT_EQ(s.name, "bpf_swift");
		EXPECT_FALSE(s.pinned);
		EXPECT_EQ(s.registration, plain ? "plain" : "link");
		EXPECT_EQ(s.law, "swift");
		EXPECT_EQ(s.programs.size(), 1U);
		EXPECT_TRUE(listing->loadable.empty());
		EXPECT_NE(bpf_notes(*listing)[0].find("its pins are not to be seen from here"), std::string::npos);
		m.host.pins_hidden = false;
		EXPECT_TRUE(m.variants.list()->loaded.at(0).pinned);
	}
}

TEST(Bpf, without_the_echo_no_cgroup_is_needed)
{
	VariantMachine m;
	BpfLoadRequest r;

	r.name = "bpf_swift";
	r.echo = false;
	m.system.files.erase("/proc/self/mounts");
	ASSERT_FALSE(m.variants.load(r).error);
	EXPECT_FALSE(m.host.exists(variant_dir + "/link_swift_echo"));
	EXPECT_TRUE(m.host.exists(variant_dir + "/link_swift_rx"));
	// And a swap leaves it out too.
	ASSERT_FALSE(m.swap().error);
	EXPECT_FALSE(m.host.exists(variant_dir + "/link_swift_echo"));
}

// Stamps have a cgroup without the echo, too.
TEST(Bpf, a_swap_turns_no_echo_on)
{
	VariantMachine m;
	BpfLoadRequest r;

	for (const char *object : {"bpf_swift", second})
		(object == second ? m.host.files[second] : m.host.objects["bpf_swift"])
			.programs.push_back({"swift_stamp", swift::BpfProgramKind::cgroup_skb, "cgroup_skb/ingress"});
	r.name = "bpf_swift";
	r.echo = false;
	ASSERT_FALSE(m.variants.load(r).error);
	EXPECT_TRUE(m.host.exists(variant_dir + "/link_swift_stamp"));
	const BpfReport swapped = m.swap();
	ASSERT_FALSE(swapped.error) << error_of(swapped);
	EXPECT_TRUE(m.host.exists(variant_dir + "/link_swift_stamp"));
	EXPECT_FALSE(m.host.exists(variant_dir + "/link_swift_echo"));
}

TEST(Bpf, dry_runs_change_nothing)
{
	VariantMachine m;
	BpfLoadRequest r;

	r.name = "bpf_swift";
	r.dry_run = true;
	r.make_default = true;
	m.system.root = false;
	const std::string empty = m.world();
	const BpfReport load = m.variants.load(r);

	ASSERT_EQ(load.steps.size(), 5U) << error_of(load);
	for (const std::string &step : load.steps)
		EXPECT_TRUE(step.starts_with("would ")) << step;
	EXPECT_EQ(m.world(), empty);
	m.system.root = true;
	ASSERT_FALSE(m.load().error);
	const std::string loaded = m.world();

	r.file = second;
	EXPECT_EQ(m.variants.swap(r).steps.size(), 2U);
	EXPECT_EQ(m.variants.unload("bpf_swift", true).steps.size(), 1U);
	EXPECT_EQ(m.variants.set({"bpf_swift", {"ai_milli=5"}, "", false, true}).steps.size(), 1U);
	EXPECT_EQ(m.world(), loaded);
}

TEST(Bpf, unload_when_parts_are_missing)
{
	for (const bool plain : {false, true}) {
		VariantMachine m;
		const std::string empty = m.world();

		ASSERT_FALSE(m.load(plain).error);
		m.host.pinned.erase(variant_dir + "/ops");
		m.host.pinned.erase(variant_dir + "/ops_link");
		m.host.pinned.erase(variant_dir + "/link_swift_rx");
		m.host.pinned.erase(variant_dir + "/swift_params");
		ASSERT_TRUE(m.variants.list());
		const BpfReport r = m.variants.unload("bpf_swift", false);

		EXPECT_FALSE(r.error) << error_of(r);
		EXPECT_EQ(m.world(), empty);
	}
}

TEST(Bpf, set_is_all_or_nothing)
{
	VariantMachine m;

	ASSERT_FALSE(m.load().error);
	const std::string before = m.world();

	EXPECT_EQ(error_of(m.set("ai_milli=0")), "ai_milli: '0' (allowed: 1 to 100000)");
	EXPECT_TRUE(m.set("ai_milli=0").usage);
	EXPECT_TRUE(m.variants.set({"bpf_swift", {"ai_milli=5", "beta_milli=0"}, "", false, false}).error);
	EXPECT_TRUE(m.set("").usage);
	EXPECT_TRUE(m.set("ai_milli=5", "10.0.0.0/8", true).usage);
	EXPECT_TRUE(m.set("", "", true).usage);
	EXPECT_EQ(error_of(m.set("", "10.0.0.0/8", true)), "no profile for this prefix: '10.0.0.0/8'");
	EXPECT_EQ(m.world(), before);

	// The second of its two writes fails: for all, for a new profile and for one that is there.
	for (const char *prefix : {"", "10.1.0.0/16"}) {
		const std::string now = m.world();

		m.host.fail_at = m.host.operations + 2;
		EXPECT_TRUE(m.set("ai_milli=7", prefix).error);
		m.host.fail_at = 0;
		EXPECT_EQ(m.world(), now) << prefix;
		EXPECT_FALSE(m.set("ai_milli=8", prefix).error);
		EXPECT_FALSE(m.variants.get("bpf_swift")->differs);
	}
	const std::string now = m.world();

	m.host.fail_at = m.host.operations + 2;
	EXPECT_TRUE(m.set("ai_milli=9", "10.1.0.0/16").error);
	m.host.fail_at = 0;
	EXPECT_EQ(m.world(), now);
}

TEST(Bpf, a_killed_set_is_told_and_mended)
{
	VariantMachine m;

	ASSERT_FALSE(m.load().error);
	m.host.fail_at = m.host.operations + 2;
	m.host.dead_after = true;
	EXPECT_TRUE(m.set("ai_milli=7").error);
	m.host.fail_at = 0;
	EXPECT_TRUE(m.variants.get("bpf_swift")->differs);
	EXPECT_FALSE(m.set("ai_milli=7").error);
	EXPECT_FALSE(m.variants.get("bpf_swift")->differs);
}

TEST(Bpf, profiles)
{
	VariantMachine m;

	ASSERT_FALSE(m.load().error);
	ASSERT_FALSE(m.set("hop_target_ns=2000").error);
	ASSERT_FALSE(m.set("base_target_ns=90000", "10.1.0.0/16").error);
	ASSERT_FALSE(m.set("base_target_ns=91000", "fd00::/16").error);
	ASSERT_FALSE(m.set("base_target_ns=92000", "0.0.0.0/0").error);

	const std::string full = m.world();

	EXPECT_EQ(error_of(m.set("base_target_ns=93000", "10.9.0.0/16")),
		  "no room for another profile: 3 are all that fit; --delete one");
	EXPECT_EQ(m.world(), full);
	ASSERT_FALSE(m.set("ai_milli=10", "10.1.0.0/16").error); // one that is there still can be changed

	const auto settings = m.variants.get("bpf_swift");

	EXPECT_EQ(bpf_profile_lines(*settings),
		  (std::vector<std::string>{"fd00::/16  base_target_ns=91000", "0.0.0.0/0  base_target_ns=92000",
					    "10.1.0.0/16  base_target_ns=90000 ai_milli=10"}));
	const auto json = nlohmann::json::parse(bpf_settings_json(*settings, "bpf_swift"));

	EXPECT_EQ(json["profiles"][2]["prefix"], "10.1.0.0/16");
	EXPECT_EQ(json["profiles"][2]["values"]["hop_target_ns"], 2000);
	EXPECT_EQ(json["tunables"].size(), settings->law->tunables.size());
	ASSERT_FALSE(m.set("", "fd00::/16", true).error);
	ASSERT_FALSE(m.set("base_target_ns=93000", "10.9.0.0/16").error);
	EXPECT_FALSE(m.variants.get("bpf_swift")->differs);

	// What the programs read is what prepare() makes of it.
	const auto key = BpfPrefix::parse("10.9.0.0/16");
	swift::BpfBytes bytes(sizeof(*key));

	std::memcpy(bytes.data(), &*key, bytes.size());
	BpfValues values = settings->law->defaults("bpf_swift");

	ASSERT_TRUE(settings->law->assign(values, "hop_target_ns=2000"));
	ASSERT_TRUE(settings->law->assign(values, "base_target_ns=93000"));
	EXPECT_EQ(m.host.pinned.at(variant_dir + "/swift_profiles")->content.at(bytes), *settings->law->prepare(values));
}

TEST(Bpf, a_law_without_profiles_says_so)
{
	VariantMachine m;
	FakeBpfFile file;

	file.ops = file.registers = "bpf_gcn";
	file.programs.resize(1);
	file.maps = {{"gcn_params", 2, 4, 16, 1, false, false}};
	m.host.objects["bpf_gcn"] = file;
	BpfLoadRequest r;

	r.name = "bpf_gcn";
	r.set = {"mdf_milli=250"};
	ASSERT_FALSE(m.variants.load(r).error);
	EXPECT_EQ(error_of(m.variants.set({"bpf_gcn", {"mdf_milli=1"}, "10.0.0.0/8", false, false})),
		  "bpf_gcn has no profiles");
	EXPECT_EQ(m.variants.get("bpf_gcn")->law->name, "gcn");
	EXPECT_FALSE(m.variants.get("bpf_gcn")->differs);
}
