// SPDX-License-Identifier: MIT
// `swiftctl ab` on made-up hosts: its order, its checks, its runs, what fails and what it
// says in the end.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>

#include <nlohmann/json.hpp>

#include "ab.h"
#include "report.h"
#include "sanitized.h"

using namespace swift;
using nlohmann::json;

namespace {

json recorded()
{
	std::ifstream file(SWIFT_TEST_DATA "/iperf/two-flows.json");

	return json::parse(file);
}

std::string after(const std::vector<std::string> &argv, const std::string &option)
{
	const auto found = std::find(argv.begin(), argv.end(), option);

	return found == argv.end() || found + 1 == argv.end() ? "" : *(found + 1);
}

bool has(const std::vector<std::string> &argv, const std::string &option)
{
	return std::find(argv.begin(), argv.end(), option) != argv.end();
}

// iperf3's word on a test with two flows, from the ports that the recording has.
AbOutput iperf_says(const AbCommand &c, double mbps, double rtt_us)
{
	auto j = recorded();
	AbOutput output;

	j["end"]["sender_tcp_congestion"] = after(c.argv, "-C");
	j["end"]["sum_received"]["bytes"] = mbps * 1e6 / 8 * j["end"]["sum_received"]["end"].get<double>();
	for (auto &interval : j["intervals"])
		for (auto &stream : interval["streams"])
			stream["rtt"] = rtt_us;
	output.out = j.dump();
	return output;
}

AbOutput says(int status, std::string out, std::string err = {})
{
	return {AbOutput::End::exited, status, std::move(out), std::move(err)};
}

class FakeHosts final : public AbHosts {
public:
	// What a real run gives; the rest of the world answers as it should.
	std::function<AbOutput(const AbCommand &)> iperf = [](const AbCommand &c) {
		return iperf_says(c, after(c.argv, "-C") == "cubic" ? 50 : 49, after(c.argv, "-C") == "cubic" ? 3000 : 1000);
	};
	std::function<AbOutput(const AbCommand &)> answers = [](const AbCommand &c) {
		const double us = after(c.argv, "--cc") == "cubic" ? 300 : 100;
		RrRun run{after(c.argv, "--cc"), 2000, {1000, 1000}, 2, {}, 3, 4000, 0, 2000};

		for (int i = 0; i < 2000; i++) // p50 as told, p99.9 twice that
			run.times_ns.push_back(us * 1000 * (i < 1990 ? 1 : 2));
		return says(0, rr_json(run));
	};
	std::function<AbOutput(const AbCommand &)> answer = [this](const AbCommand &c) {
		if (c.argv[0] == "iperf3" && c.argv[1] == "--version")
			return says(0, "iperf 3.12\n");
		if (c.argv[0] == "sh")
			return says(0, "0\nreno cubic swift\nreno cubic\n");
		if (c.argv[0] == "true")
			return says(0, "");
		if (c.argv[0] == "swiftctl" && has(c.argv, "--ask"))
			return answers(c);
		if (c.argv[0] == "swiftctl")
			return says(127, "", "sh: 1: swiftctl: not found\n");
		return iperf(c);
	};
	std::vector<Flow> sockets;
	std::vector<AbCommand> asked;
	std::vector<std::string> ran; // the congestion controls of real runs
	int stop_after = -1; // real runs

	std::vector<AbOutput> run(const std::vector<AbCommand> &commands, double, const Tick &tick) override
	{
		std::vector<AbOutput> outputs;

		for (int i = 0; tick && i < 30; i++) {
			clock_s_ += 0.1;
			tick(i * 0.1);
		}
		for (const AbCommand &c : commands) {
			asked.push_back(c);
			outputs.push_back(answer(c));
		}
		const auto &first = commands[0].argv;

		if (has(first, "-t") || (has(first, "--ask") && after(first, "--duration") != "0")) {
			ran.push_back(after(first, has(first, "-t") ? "-C" : "--cc"));
			stopped_ |= static_cast<int>(ran.size()) == stop_after;
		}
		return outputs;
	}
	Result<std::vector<Flow>> flows() override { return sockets; }
	bool pause(double seconds) override
	{
		clock_s_ += seconds;
		return !stopped_;
	}
	bool stopped() const override { return stopped_; }
	double now_s() const override { return clock_s_; }

private:
	double clock_s_ = 100;
	bool stopped_ = false;
};

class Quiet final : public AbListener {
public:
	void progress(const AbProgress &p) override
	{
		EXPECT_GE(p.left_s, 0);
		EXPECT_LE(p.run, p.runs);
		left_s = p.left_s;
	}
	void done(const AbProgress &, const AbRun &) override { good++; }
	void failed(const AbProgress &, const std::string &reason, bool again) override
	{
		reasons.push_back(reason + (again ? " (again)" : ""));
	}

	int good = 0;
	double left_s = -1;
	std::vector<std::string> reasons;
};

AbOptions options()
{
	AbOptions o;

	o.servers = {"10.0.0.2"};
	o.cc = "swift,cubic";
	o.parallel = "2";
	o.duration = "2";
	o.warmup = "1";
	o.seed = "5";
	return o;
}

AbResult result_of(const AbOptions &o, FakeHosts &hosts, Quiet &quiet)
{
	AbResult result;

	result.plan = *ab_plan(o, 0);
	ab_run_all(result, hosts, quiet);
	return result;
}

AbRun made_up(unsigned block, const std::string &cc, double goodput, double p99)
{
	AbRun r;

	r.block = block;
	r.cc = cc;
	r.goodput_bps = goodput;
	r.rtt_ns = AbRtt{p99, p99, p99, std::nullopt, 200};
	return r;
}

const AbComparison &find(const std::vector<AbComparison> &all, std::string_view metric)
{
	for (const AbComparison &c : all)
		if (c.metric == metric)
			return c;
	throw std::runtime_error(std::string(metric));
}

} // namespace

TEST(ab, wrong_options_name_the_value_and_what_is_allowed)
{
	struct {
		void (*change)(AbOptions &);
		const char *text;
	} const rows[] = {
		{[](auto &o) { o.servers = {}; }, "which SERVER?"},
		{[](auto &o) { o.servers = {"-oProxyCommand=x"}; },
		 "SERVER: '-oProxyCommand=x' (allowed: a host name or an address)"},
		{[](auto &o) { o.clients = {"a;b"}; }, "--client: 'a;b'"},
		{[](auto &o) { o.clients = {"a", "a"}; }, "--client given twice: 'a'"},
		{[](auto &o) { o.cc = "cubic,cubic"; },
		 "--cc: given twice: 'cubic' (allowed: each congestion control once)"},
		{[](auto &o) { o.cc = "cubic,"; }, "--cc (allowed: names of congestion controls"},
		{[](auto &o) { o.cc = "a b"; }, "--cc: 'a b'"},
		{[](auto &o) { o.cc = "congestion-control"; }, "--cc: 'congestion-control'"},
		{[](auto &o) { o.runs = "0"; }, "--runs: '0' (allowed: 1 to 200)"},
		{[](auto &o) { o.parallel = "129"; }, "--parallel: '129' (allowed: 1 to 128)"},
		{[](auto &o) { o.duration = "1.5"; }, "--duration: '1.5' (allowed: 1 to 3600)"},
		{[](auto &o) { o.warmup = "61"; }, "--warmup: '61' (allowed: 0 to 60)"},
		{[](auto &o) { o.port = "65535", o.clients = {"b"}; }, "--port: '65535' (allowed: 1 to 65534)"},
		{[](auto &o) { o.dscp = "64"; }, "--dscp: '64' (allowed: 0 to 63)"},
		{[](auto &o) { o.seed = "-1"; }, "--seed: '-1'"},
		{[](auto &o) { o.server_ssh = {"a", "b"}; },
		 "--server-ssh: '2 given' (allowed: one for each SERVER: 1)"},
	};

	for (const auto &r : rows) {
		AbOptions o = options();

		r.change(o);
		const auto plan = ab_plan(o, 0);

		ASSERT_FALSE(plan) << r.text;
		EXPECT_EQ(plan.error().text().find(r.text), 0U) << plan.error().text();
	}
}

TEST(ab, every_block_has_every_cc_once_in_random_order)
{
	AbOptions o = options();

	o.cc = "swift,dctcp,cubic";
	o.runs = "200";
	const AbPlan plan = *ab_plan(o, 0);
	const auto order = ab_order(plan);
	std::map<std::string, int> first;

	ASSERT_EQ(order.size(), 600U);
	for (std::size_t i = 0; i < order.size(); i += 3) {
		std::set<std::string> block;

		for (std::size_t j = i; j < i + 3; j++) {
			EXPECT_EQ(order[j].block, i / 3 + 1);
			block.insert(order[j].cc);
		}
		EXPECT_EQ(block.size(), 3U);
		first[order[i].cc]++;
	}
	for (const auto &[cc, times] : first)
		EXPECT_NEAR(times, 67, 27) << cc; // four standard deviations

	const auto same = ab_order(plan);
	AbPlan another = plan;

	another.seed++;
	const auto other = ab_order(another);
	const auto equal = [&](const std::vector<AbTurn> &b) {
		return std::equal(order.begin(), order.end(), b.begin(),
				  [](const AbTurn &x, const AbTurn &y) { return x.cc == y.cc; });
	};

	EXPECT_TRUE(equal(same));
	EXPECT_FALSE(equal(other));
}

TEST(ab, commands)
{
	AbOptions o = options();

	o.clients = {"c2"};
	o.servers = {"s1", "s2"};
	o.dscp = "10";
	o.reverse = true;
	const AbPlan plan = *ab_plan(o, 0);
	const auto legs = ab_legs(plan);

	ASSERT_EQ(legs.size(), 4U);
	EXPECT_EQ(plan.flows(), 8U);
	EXPECT_EQ(legs[3].client, "c2");
	EXPECT_EQ(legs[3].server, "s2");
	EXPECT_EQ(legs[3].port, 5202);
	EXPECT_EQ(shell_text(ab_iperf_command(plan, legs[3], "swift")),
		  "iperf3 --json --connect-timeout 5000 -c s2 -p 5202 -C swift -R --dscp 10 -P 2 -t 2 -O 1 -i 0.1");
	EXPECT_EQ(shell_text({"echo", "a b", "it's", ""}), "echo 'a b' 'it'\\''s' ''");
	// However long: iperf3 has all its intervals in memory.
	o.duration = "3600";
	o.parallel = "128";
	EXPECT_EQ(after(ab_iperf_command(*ab_plan(o, 0), legs[0], "swift"), "-i"), "23.0");
}

TEST(ab, checks_pass_where_all_is_there)
{
	AbOptions o = options();
	FakeHosts hosts;

	o.clients = {"c2"};
	o.server_ssh = {"s"};
	EXPECT_EQ(ab_check(*ab_plan(o, 0), hosts), std::vector<std::string>());
	// Each client tries each congestion control at its own port.
	std::set<std::string> tried;

	for (const AbCommand &c : hosts.asked)
		if (has(c.argv, "-n"))
			tried.insert(c.host + ":" + after(c.argv, "-p") + " " + after(c.argv, "-C"));
	EXPECT_EQ(tried, (std::set<std::string>{":5201 swift", ":5201 cubic", "c2:5202 swift", "c2:5202 cubic"}));
}

TEST(ab, checks_say_what_is_missing_and_how_to_get_it)
{
	struct {
		std::function<std::optional<AbOutput>(const AbCommand &)> world;
		std::vector<std::string> lines;
	} const rows[] = {
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (c.host == "c2")
				 return says(255, "", "c2: Permission denied (publickey).\n");
			 return {};
		 },
		 {"c2: ssh does not get there without a question: c2: Permission denied (publickey). (try: ssh -o "
		  "BatchMode=yes c2 true)"}},
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (c.host == "c2")
				 return says(127, "");
			 return {};
		 },
		 {"c2: ssh is not installed here (apt-get install openssh-client)"}},
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (has(c.argv, "--version"))
				 return says(127, "", c.host.empty() ? "" : "sh: 1: iperf3: not found\n");
			 return {};
		 },
		 {"this host: iperf3 does not run: not installed (apt-get install iperf3)",
		  "c2: iperf3 does not run: sh: 1: iperf3: not found (apt-get install iperf3)"}},
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (c.argv[0] == "sh" && c.host.empty())
				 return says(0, "0\nreno cubic\nreno cubic\n");
			 return {};
		 },
		 {"this host: congestion control swift is not available (there: reno cubic; to get it: swiftctl enable "
		  "--no-default)"}},
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (c.argv[0] == "sh" && c.host == "c2")
				 return says(0, "1000\nreno cubic swift\nreno cubic\n");
			 return {};
		 },
		 {"c2: congestion control swift is for root only (sysctl -w "
		  "net.ipv4.tcp_allowed_congestion_control='reno cubic swift')"}},
		{[](const AbCommand &c) -> std::optional<AbOutput> {
			 if (has(c.argv, "-n"))
				 return says(1, R"({"start":{},"end":{},"error":"unable to connect to server: Connection refused"})");
			 return {};
		 },
		 {"10.0.0.2 port 5201, from this host, with swift: iperf3: unable to connect to server: Connection refused "
		  "(there: iperf3 -s -p 5201)",
		  "10.0.0.2 port 5202, from c2, with swift: iperf3: unable to connect to server: Connection refused (there: "
		  "iperf3 -s -p 5202)"}},
	};

	for (const auto &r : rows) {
		AbOptions o = options();
		FakeHosts hosts;
		const auto usual = hosts.answer;

		o.clients = {"c2"};
		hosts.answer = [&](const AbCommand &c) { return r.world(c).value_or(usual(c)); };
		EXPECT_EQ(ab_check(*ab_plan(o, 0), hosts), r.lines);
	}
}

TEST(ab, a_server_that_is_busy_for_a_moment_is_waited_for)
{
	FakeHosts hosts;
	int busy = 3;

	hosts.iperf = [&](const AbCommand &c) {
		return busy-- > 0 ? says(1, R"({"error":"the server is busy running a test. try again later"})") :
				    iperf_says(c, 50, 1000);
	};
	EXPECT_TRUE(ab_check(*ab_plan(options(), 0), hosts).empty());
	busy = 1000;
	EXPECT_EQ(ab_check(*ab_plan(options(), 0), hosts).size(), 1U);
}

// Between two tests iperf3's server does not listen.
TEST(ab, a_server_that_refuses_for_a_moment_is_waited_for)
{
	FakeHosts hosts;
	int refuses = 3;

	hosts.iperf = [&](const AbCommand &c) {
		return refuses-- > 0 ? says(1, R"({"error":"unable to connect to server: Connection refused"})") :
				       iperf_says(c, 50, 1000);
	};
	EXPECT_TRUE(ab_check(*ab_plan(options(), 0), hosts).empty());
	refuses = 1000;
	EXPECT_EQ(ab_check(*ab_plan(options(), 0), hosts).size(), 1U);
}

TEST(ab, runs_and_what_they_say)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();

	o.runs = "10";
	const AbResult r = result_of(o, hosts, quiet);

	EXPECT_TRUE(r.complete);
	EXPECT_EQ(r.runs.size(), 20U);
	EXPECT_EQ(quiet.good, 20);
	EXPECT_LT(quiet.left_s, 1);
	EXPECT_EQ(r.runs[19].position, 20U);
	EXPECT_EQ(r.runs[0].flows, 2U);
	EXPECT_NEAR(r.runs[0].jain, 0.9968, 0.0001);
	EXPECT_FALSE(r.runs[0].rtt_ns->p99); // of 8 samples

	const auto comparisons = ab_comparisons(r);
	const AbComparison &rtt = find(comparisons, "rtt_ns.p50");

	EXPECT_NEAR(rtt.ratio->value, 1 / 3.0, 1e-9);
	EXPECT_TRUE(rtt.shown);
	EXPECT_EQ(rtt.pairs, 10U);
	EXPECT_DOUBLE_EQ(rtt.p, 2.0 / 1024);
	EXPECT_EQ(rtt.text, "median RTT 3.0x lower than cubic (95 % CI 3.0 to 3.0; large effect)");
	EXPECT_EQ(find(comparisons, "goodput_bps").text,
		  "goodput 2.0 % lower than cubic (95 % CI -2.0 % to -2.0 %; large effect)");
	EXPECT_EQ(find(comparisons, "retransmits").text,
		  "retransmits: no difference to cubic shown (95 % CI +0 to +0; 0 would have been)");
	ASSERT_EQ(ab_verdicts(comparisons).size(), 1U);
	EXPECT_EQ(ab_verdicts(comparisons)[0].find("swift: goodput 2.0 % lower than cubic ("), 0U);
}

TEST(ab, a_run_that_fails_is_tried_once_more_and_then_left_out)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();
	int calls = 0;

	o.runs = "6";
	hosts.iperf = [&](const AbCommand &c) {
		calls++;
		if (calls == 2)
			return says(1, R"({"error":"unable to connect to server: Connection timed out"})");
		if (calls == 5 || calls == 6)
			return AbOutput{AbOutput::End::too_late, 143, "", ""};
		return iperf_says(c, 50, 1000);
	};
	const AbResult r = result_of(o, hosts, quiet);

	EXPECT_TRUE(r.complete);
	EXPECT_EQ(r.runs.size(), 11U);
	ASSERT_EQ(r.failed.size(), 1U);
	EXPECT_EQ(r.failed[0].attempts, 2U);
	EXPECT_EQ(r.failed[0].reason, "this host to 10.0.0.2: it did not end in time");
	EXPECT_EQ(quiet.reasons,
		  (std::vector<std::string>{
			  "this host to 10.0.0.2: iperf3: unable to connect to server: Connection timed out (again)",
			  "this host to 10.0.0.2: it did not end in time (again)",
			  "this host to 10.0.0.2: it did not end in time"}));

	const json j = json::parse(ab_json(r));

	EXPECT_EQ(j["failed"].size(), 1U);
	EXPECT_EQ(j["summary"][0]["n"].get<int>() + j["summary"][1]["n"].get<int>(), 11);
	EXPECT_EQ(j["comparisons"][0]["pairs"], 5); // the block that lacks one is no pair
}

TEST(ab, another_congestion_control_than_asked_for_is_a_failure)
{
	FakeHosts hosts;
	Quiet quiet;

	hosts.iperf = [](const AbCommand &c) {
		AbCommand other = c;

		other.argv[static_cast<std::size_t>(
			std::find(other.argv.begin(), other.argv.end(), "-C") - other.argv.begin() + 1)] = "reno";
		return iperf_says(other, 50, 1000);
	};
	AbOptions o = options();

	o.runs = "1";
	const AbResult r = result_of(o, hosts, quiet);

	EXPECT_TRUE(r.runs.empty());
	EXPECT_NE(r.failed.at(0).reason.find(", got reno"), std::string::npos);
}

TEST(ab, stopping_keeps_what_is_there)
{
	FakeHosts hosts;
	Quiet quiet;

	hosts.stop_after = 4; // in the middle of the fourth
	const AbResult r = result_of(options(), hosts, quiet);

	EXPECT_FALSE(r.complete);
	EXPECT_EQ(r.runs.size(), 3U);
	EXPECT_TRUE(r.failed.empty());
	const json j = json::parse(ab_json(r));

	EXPECT_EQ(j["complete"], false);
	EXPECT_EQ(j["runs"].size(), 3U);
	EXPECT_NE(j["notes"].dump().find("stopped after 3 of 20 runs"), std::string::npos);
}

TEST(ab, where_the_delay_is_comes_from_the_flows_of_the_run_alone)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();
	const auto flow = [](std::uint16_t local, std::uint32_t fabric_ns) {
		Flow f;

		f.local.port = local;
		f.remote.port = 5201;
		f.cc = "swift";
		f.tcp.emplace();
		f.tcp->srtt_us = 900;
		f.swift = SwiftRecord{fabric_ns, 4000, 50000, 3 << 16, 2 << 16, Stamp::none, Stamp::none};
		return f;
	};

	o.runs = "1";
	hosts.sockets = {flow(40038, 60000), flow(40054, 80000), flow(1111, 4000000)};
	hosts.sockets.push_back(flow(40038, 9000000));
	hosts.sockets.back().remote.port = 443;
	const AbResult r = result_of(o, hosts, quiet);
	const AbLaw &law = r.runs.at(0).law.value();

	EXPECT_EQ(law.fabric_ns.p50, 70000);
	EXPECT_EQ(law.fabric_ns.avg, 70000);
	EXPECT_EQ(law.endpoint_ns.p50, 4000);
	EXPECT_EQ(law.target_ns, 50000);
	EXPECT_EQ(law.ecwnd, 2);
	EXPECT_EQ(law.endpoint_limited, 1);
	// 30 samples of each, of which the first second is the warm-up.
	EXPECT_NEAR(static_cast<double>(law.samples), 40, 2);
	EXPECT_EQ(r.runs[0].ends.at(0).srtt_ns->p50, 900000);
	EXPECT_EQ(json::parse(ab_json(r))["runs"][0]["law"]["fabric_ns"]["p50"], 70000.0);
}

TEST(ab, what_other_hosts_see)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();
	const auto usual = hosts.answer;

	o.runs = "1";
	o.clients = {"c2", "c3"};
	o.server_ssh = {"s"};
	hosts.answer = [&](const AbCommand &c) {
		std::string lines;

		if (c.argv[0] != "swiftctl" || c.host == "c3")
			return usual(c);
		EXPECT_TRUE(c.companion);
		for (int i = 0; i < 30; i++) {
			const json flow = {{"local_port", c.host == "s" ? 5201 : 40038},
					   {"remote_port", c.host == "s" ? 40038 : 5202},
					   {"cc", "swift"},
					   {"srtt_us", 700},
					   {"fabric_ns", 30000},
					   {"endpoint_ns", 1000},
					   {"target_ns", 50000},
					   {"fcwnd", 2.5},
					   {"ecwnd", 40.0}};
			const json line = {{"time_ns", 1700000000000000000 + i * 100000000LL}, {"flows", json::array({flow})}};

			lines += line.dump() + "\n";
		}
		// The last line is cut off when it is ended.
		return says(0, lines + "{\"time_ns\": 17");
	};
	const AbResult r = result_of(o, hosts, quiet);
	const auto &ends = r.runs.at(0).ends;

	ASSERT_EQ(ends.size(), 4U);
	EXPECT_EQ(ends[0].samples, 0U);
	EXPECT_EQ(ends[0].why_not, "none of its flows was seen");
	EXPECT_EQ(ends[1].host, "c2");
	EXPECT_TRUE(ends[1].sender);
	EXPECT_EQ(ends[1].samples, 20U);
	EXPECT_EQ(ends[1].law->fabric_ns.p50, 30000);
	EXPECT_EQ(ends[2].why_not, "swiftctl is not installed there");
	EXPECT_FALSE(ends[3].sender);
	EXPECT_EQ(ends[3].samples, 20U);
	EXPECT_EQ(r.runs[0].law->samples, 20U); // of the senders alone
	EXPECT_NE(json::parse(ab_json(r))["notes"].dump().find("no view from c3: swiftctl is not installed there"),
		  std::string::npos);
	EXPECT_EQ(r.runs[0].flows, 6U);
	EXPECT_NEAR(r.runs[0].goodput_bps, 3 * (r.runs[0].cc == "cubic" ? 50e6 : 49e6), 10);
}

TEST(ab, too_few_runs_say_so)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();

	o.runs = "5";
	const AbResult r = result_of(o, hosts, quiet);
	const json j = json::parse(ab_json(r));

	EXPECT_FALSE(j["summary"][0]["metrics"]["goodput_bps"].contains("ci95"));
	EXPECT_NE(j["notes"].dump().find("below 6 runs"), std::string::npos);
	EXPECT_EQ(find(ab_comparisons(r), "rtt_ns.p50").text,
		  "median RTT: no difference to cubic can be shown by 5 pairs of runs");
	// 2 congestion controls: 4 comparisons, 2^(1-n) * 4 < 0.05.
	const auto least = [&](std::vector<std::string> ccs, unsigned askers, unsigned looks) {
		AbPlan plan = r.plan;

		plan.ccs = std::move(ccs);
		plan.askers = askers;
		plan.looks = looks;
		return ab_least_runs(plan);
	};

	EXPECT_EQ(least({"a", "b"}, 0, 1), 8U);
	EXPECT_EQ(least({"a", "b", "c"}, 0, 1), 9U);
	EXPECT_EQ(least({"a", "b", "c", "d"}, 0, 1), 10U);
	EXPECT_EQ(least({"a", "b"}, 1, 1), 9U) << "7 comparisons";
	EXPECT_EQ(least({"a", "b"}, 0, 4), 10U);
	EXPECT_NE(ab_plan_text(r.plan).find("--runs 8 is the least"), std::string::npos);
}

// --- Questions and answers ------------------------------------------------------------------

TEST(ab, what_is_said_of_answers_is_read_again)
{
	const RrRun run{"swift", 2, {1, 1}, 1.5, {10, 20, 30}, 4, 5, 0.25, 3};
	const auto read = parse_rr(rr_json(run));

	ASSERT_TRUE(read) << read.error().text();
	EXPECT_EQ(*read, run);
	const auto old = parse_rr(R"({"schema":1,"cc":"a","count":2,"of_each":[2],"seconds":1,"times_ns":[1,2],"retransmits":0,"segments":0})");

	ASSERT_TRUE(old) << old.error().text();
	EXPECT_EQ(old->moments, 2U);
	for (const char *text : {"", "[]", "{}", R"({"schema":2})", R"({"error":"no"})",
				 R"({"schema":1,"cc":"a","count":1,"of_each":[],"seconds":1,"times_ns":[],"retransmits":0,"segments":0})",
				 R"({"schema":1,"cc":"a","count":2,"of_each":[],"seconds":1,"times_ns":[2,1],"retransmits":0,"segments":0})",
				 R"({"schema":1,"cc":"a","count":1,"of_each":[],"seconds":1,"times_ns":[2],"retransmits":0,"segments":0,"waited_s":-1})",
				 R"({"schema":1,"cc":"a","count":1,"of_each":[],"seconds":1,"times_ns":[1,2],"retransmits":0,"segments":0,"moments":1})"})
		EXPECT_FALSE(parse_rr(text)) << text;
	const auto bytes = rr_head({"dctcp", 100, 64000});

	EXPECT_EQ(*parse_rr_head({bytes.data(), bytes.size()}), (RrHead{"dctcp", 100, 64000}));
	for (const RrHead &bad : {RrHead{"", 1, 1}, {"a b", 1, 1}, {"cubic", 0, 1}, {"cubic", 1, rr_most_bytes + 1}}) {
		const auto wrong = rr_head(bad);

		EXPECT_FALSE(parse_rr_head({wrong.data(), wrong.size()})) << bad.cc;
	}
	EXPECT_FALSE(parse_rr_head("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

// Each leg's times stand for as many moments as it had.
TEST(ab, quantiles_of_answers_are_of_all_legs)
{
	const RrRun fast{"a", 900, {900}, 1, {1, 1, 1}, 0, 0, 0, 900}, slow{"a", 100, {100}, 1, {5, 7}, 0, 0, 0, 100};

	EXPECT_EQ(rr_quantile({fast, slow}, 0.5), 1);
	EXPECT_EQ(rr_quantile({fast, slow}, 0.9), 1);
	EXPECT_EQ(rr_quantile({fast, slow}, 0.93), 5);
	EXPECT_EQ(rr_quantile({fast, slow}, 0.99), 7);
	EXPECT_EQ(rr_quantile({fast, slow}, 0.999), 7);
	EXPECT_FALSE(rr_quantile({slow}, 0.999)) << "of 100 none is beyond it";
	EXPECT_FALSE(rr_quantile({}, 0.5));
}

// A queue of 20 ms, but for each tenth 100 ms, in which it is empty: who asks again at once hears mostly of those.
TEST(ab, moments_meet_the_queue_for_its_part_of_the_time)
{
	constexpr std::int64_t ms = 1'000'000, end = 100'000 * ms;
	const auto answer_ns = [](std::int64_t now_ns) { return now_ns / (100 * ms) % 10 == 0 ? ms / 5 : 20 * ms; };
	std::vector<double> again;

	for (std::int64_t now = 0; now < end; now += answer_ns(now))
		again.push_back(static_cast<double>(answer_ns(now)));
	EXPECT_EQ(percentile(again, 0.5), 0.2e6);

	for (const unsigned every_ms : {1U, 5U, 50U}) {
		RrMoments moments(every_ms, every_ms, 0);
		RrTimes times(every_ms);
		std::int64_t before = 0;

		for (std::int64_t now = moments.next_ns(); now < end; now = moments.next_ns()) {
			const std::int64_t took = answer_ns(now), done = now + took;

			for (std::size_t i = moments.pass(now, 0, end).size(); i > 0; i--)
				times.add(static_cast<double>(took));
			for (const std::int64_t at : moments.pass(done, 0, end))
				times.add(static_cast<double>(rr_passed_ns(at, done, took, before, false)));
			before = took;
		}
		const std::vector<double> all = times.taken();
		const auto quick = static_cast<double>(std::count(all.begin(), all.end(), 0.2e6));

		EXPECT_NEAR(static_cast<double>(times.count()), 1e5 / every_ms, 4 * std::sqrt(1e5 / every_ms)) << every_ms;
		EXPECT_NEAR(quick / static_cast<double>(all.size()), 0.1, 0.03) << every_ms;
		EXPECT_EQ(percentile(all, 0.5), 20e6) << every_ms;
	}
	RrMoments moments(1, 1, 0);

	(void)moments.pass(10 * ms, 20 * ms, 30 * ms);
	EXPECT_GT(moments.next_ns(), 10 * ms);
	EXPECT_TRUE(moments.pass(20 * ms - 1, 20 * ms, 30 * ms).empty()) << "the warm-up";
	EXPECT_NEAR(static_cast<double>(moments.pass(100 * ms, 20 * ms, 30 * ms).size()), 10, 9);
	EXPECT_TRUE(moments.pass(1000 * ms, 20 * ms, 30 * ms).empty()) << "after its end";
}

// 200 ms for one lost packet of a path of 0.1 ms: who asks meanwhile waits for the rest of it, or, over a connection
// of his own, not at all.
TEST(ab, a_lost_packet_is_no_queue)
{
	constexpr std::int64_t ms = 1'000'000;

	EXPECT_EQ(rr_passed_ns(1050 * ms, 1200 * ms, 200 * ms, ms / 10, false), 150 * ms);
	EXPECT_EQ(rr_passed_ns(1199 * ms, 1200 * ms, 200 * ms, ms / 10, false), 1 * ms);
	EXPECT_EQ(rr_passed_ns(1050 * ms, 1200 * ms, 200 * ms, ms / 10, true), ms / 10);
	EXPECT_EQ(rr_passed_ns(1050 * ms, 1200 * ms, 200 * ms, 210 * ms, true), 200 * ms) << "a queue";
	EXPECT_EQ(rr_passed_ns(1199 * ms, 1200 * ms, 200 * ms, 190 * ms, false), 190 * ms) << "a queue";
}

TEST(ab, of_very_many_times_a_sample_is_kept)
{
	RrTimes few(1), many(1, 1000);

	for (int i = 100; i > 0; i--)
		few.add(i);
	for (int i = 0; i < 100'000; i++)
		many.add(i);
	EXPECT_EQ(few.count(), 100U);
	EXPECT_EQ(few.taken().front(), 1);
	EXPECT_EQ(few.taken().size(), 100U);
	EXPECT_EQ(many.count(), 100'000U);
	EXPECT_EQ(many.taken().size(), 1000U);
	EXPECT_NEAR(percentile(many.taken(), 0.5).value(), 50'000, 5'000);
	EXPECT_NEAR(percentile(many.taken(), 0.99).value(), 99'000, 1'000);
}

// By chance no question would be due in a run, and "no answer came" would be said of it.
TEST(ab, questions_that_are_too_few_are_refused)
{
	AbOptions o = options();

	o.rr = "2";
	o.duration = "5";
	o.rr_every = "501";
	const auto plan = ab_plan(o, 0);

	ASSERT_FALSE(plan);
	EXPECT_NE(plan.error().text().find("--rr-every: '501' (allowed: 0 to 500 with --rr 2 and --duration 5)"), std::string::npos)
		<< plan.error().text();
	o.rr_every = "500";
	EXPECT_TRUE(ab_plan(o, 0));
}

TEST(ab, what_others_say_reaches_no_terminal_as_it_is)
{
	AbOutput said;

	said.err = "evil \x1b]0;owned\a\x1b[31mred\n";
	EXPECT_EQ(said.complaint(""), "evil ?]0;owned??[31mred");
}

TEST(ab, answers_come_beside_the_flows_or_alone)
{
	for (const char *parallel : {"2", "0"}) {
		FakeHosts hosts;
		Quiet quiet;
		AbOptions o = options();

		o.runs = "10";
		o.rr = "4";
		o.rr_bytes = "100,2000";
		o.parallel = parallel;
		const auto plan = ab_plan(o, 0);

		ASSERT_TRUE(plan) << plan.error().text();
		EXPECT_NE(ab_plan_text(*plan).find("4 connections that ask 10.0.0.2 100 bytes for 2000"), std::string::npos)
			<< ab_plan_text(*plan);
		EXPECT_EQ(plan->ask_every_ms, plan->parallel > 0 ? 5U : 0U);
		EXPECT_EQ(has(ab_ask_command(*plan, ab_legs(*plan)[0], "cubic", "swiftctl"), "--rr-every"), plan->parallel > 0);
		EXPECT_TRUE(ab_check(*plan, hosts).empty());
		const AbResult r = result_of(o, hosts, quiet);

		ASSERT_EQ(r.runs.size(), 20U);
		const json j = json::parse(ab_json(r));
		const json &swift = j["summary"][0]["metrics"];

		EXPECT_EQ(swift["rr_ns.p50"]["median"], 100000);
		EXPECT_EQ(swift["rr_ns.p90"]["median"], 100000);
		EXPECT_EQ(swift["rr_ns.p999"]["median"], 200000);
		EXPECT_EQ(swift["rr_ns.p999"]["ci95"], json({200000, 200000}));
		EXPECT_EQ(swift["rr_per_s"]["median"], 1000);
		EXPECT_EQ(find(ab_comparisons(r), "rr_ns.p999").text.substr(0, 35), "p99.9 answer time 3.0x lower than c");
		const auto report = read_report("it", ab_json(r));

		ASSERT_TRUE(report) << report.error().text();
		EXPECT_NE(report_text(*report, {}).find("answer p99.9"), std::string::npos);
		if (plan->parallel > 0)
			continue;
		EXPECT_EQ(j["runs"][0]["goodput_bps"], 1000 * 8 * 2100);
		EXPECT_EQ(j["runs"][0]["retransmits"], 3);
		EXPECT_EQ(j["runs"][0]["jain"], 1);
		EXPECT_EQ(j["runs"][0]["n"], 2);
		for (const AbCommand &c : hosts.asked)
			EXPECT_NE(c.argv[0], "iperf3");
	}
}

// Questions that were asked before the flows began, or after they ended, say nothing of the flows' queue.
TEST(ab, answers_count_where_all_flows_ran_beside_them)
{
	const auto reasons = [](double flows_ended_s, double answers_ended_s, double waited_s) {
		FakeHosts hosts;
		Quiet quiet;
		AbOptions o = options();
		const auto answers = hosts.answers, iperf = hosts.iperf;

		o.runs = "1";
		o.cc = "reno,cubic";
		o.rr = "1";
		o.duration = "10";
		o.warmup = "2";
		hosts.iperf = [&](const AbCommand &c) {
			AbOutput output = iperf(c);

			output.ended_s = flows_ended_s;
			return output;
		};
		hosts.answers = [&](const AbCommand &c) {
			AbOutput output = answers(c);
			RrRun run = *parse_rr(output.out);

			run.waited_s = waited_s;
			output.out = rr_json(run);
			output.ended_s = answers_ended_s;
			return output;
		};
		const AbResult r = result_of(o, hosts, quiet);

		EXPECT_EQ(r.runs.size() + r.failed.size(), 2U);
		return r.failed.empty() ? std::string() : r.failed[0].reason;
	};

	/* Flows of 13 s, of which 2 are the warm-up; questions of 12. */
	EXPECT_EQ(reasons(13, 12, 0), "");
	EXPECT_EQ(reasons(15.4, 12, 0), "") << "the warm-up and a twentieth of the time";
	EXPECT_EQ(reasons(13, 13.4, 0), "") << "the second more and a twentieth";
	EXPECT_EQ(reasons(13, 20, 7.5), "") << "the last answer was late, not its question";
	EXPECT_EQ(reasons(16.5, 12, 0),
		  "the questions from this host to 10.0.0.2 were asked for 8.5 of their 10 s beside the flows from this host to "
		  "10.0.0.2, which began 3.5 s later (a longer --warmup and --duration bear that)");
	EXPECT_NE(reasons(13, 15, 0).find("8.0 of their 10 s"), std::string::npos);
	EXPECT_NE(reasons(13, 15, 0).find("began 3.0 s earlier"), std::string::npos);
	EXPECT_NE(reasons(40, 12, 0).find("for 0.0 of"), std::string::npos);
}

TEST(ab, who_does_not_answer_is_named_with_what_to_do)
{
	FakeHosts hosts;
	AbOptions o = options();

	o.rr = "1";
	hosts.answers = [](const AbCommand &) { return says(1, "", "swiftctl ab: 10.0.0.2: cannot connect: Connection refused\n"); };
	const auto wrong = ab_check(*ab_plan(o, 0), hosts);

	ASSERT_EQ(wrong.size(), 1U);
	EXPECT_EQ(wrong[0], "10.0.0.2 port 5200, from this host, with swift: swiftctl ab: 10.0.0.2: cannot connect: Connection "
			    "refused (there: swiftctl ab --serve)");
}

// --- Looks ----------------------------------------------------------------------------------

TEST(ab, it_ends_at_the_look_at_which_all_is_decided)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();

	o.runs = "40";
	o.looks = "3"; // after 14, 27 and 40
	const AbResult r = result_of(o, hosts, quiet);

	EXPECT_EQ(ab_looks(r.plan), (std::vector<unsigned>{14, 27, 40}));
	EXPECT_EQ(r.runs.size(), 28U);
	EXPECT_TRUE(r.complete);
	EXPECT_EQ(r.looks_made, 1U);
	EXPECT_EQ(ab_look_factor(r), 3U);
	const AbComparison c = find(ab_comparisons(r), "rtt_ns.p50");

	EXPECT_TRUE(c.shown);
	EXPECT_GT(c.ratio->ci95->coverage, 1 - 0.05 / 3);
	EXPECT_NE(json::parse(ab_json(r))["notes"].dump().find("corrected for 3 looks, of which 1 was made"), std::string::npos);
}

// Whoever watches may stop it when it looks well: that is a look after each round.
TEST(ab, one_that_is_stopped_is_corrected_for_each_round)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();

	o.runs = "40";
	hosts.stop_after = 16;
	const AbResult r = result_of(o, hosts, quiet);

	EXPECT_FALSE(r.complete);
	EXPECT_EQ(ab_look_factor(r), 40U);
	for (const AbComparison &c : ab_comparisons(r))
		EXPECT_FALSE(c.shown) << c.metric; // 7 pairs: p = 2^-6 at best, of 4 comparisons at 40 looks
}

// The same law under two names, and somebody who stops at the first look at which they differ.
TEST(ab, looks_do_not_find_what_is_not_there)
{
	constexpr int tests = worlds_of(200);
	std::mt19937_64 random(11);
	std::normal_distribution<double> noise(0, 0.05);
	int wrong = 0, uncorrected = 0;

	for (int i = 0; i < tests; i++) {
		AbResult r;
		bool any = false, any_uncorrected = false;

		r.plan = *ab_plan(options(), 1);
		r.plan.ccs = {"cubic1", "cubic2"};
		r.plan.runs = 40;
		for (unsigned block = 1; block <= r.plan.runs; block++) {
			for (const std::string &cc : r.plan.ccs)
				r.runs.push_back(made_up(block, cc, 1e8 * std::exp(noise(random)), 1e6 * std::exp(noise(random))));
			if (block % 8 != 0)
				continue;
			r.plan.looks = 5;
			any |= ab_decided(r);
			r.plan.looks = 1;
			any_uncorrected |= ab_decided(r);
		}
		wrong += any;
		uncorrected += any_uncorrected;
	}
	if (sanitized)
		return;
	EXPECT_LE(wrong, 22); // 5 % of 200, and four standard errors
	EXPECT_GT(uncorrected, wrong);
}

// The same law under two names: the whole chain must not find a difference more often than
// it says. Of 4 comparisons together, Holm keeps errors below 5 %.
TEST(ab, a_against_a_shows_no_difference)
{
	constexpr int tests = 400;
	std::mt19937_64 random(9);
	std::normal_distribution<double> noise(0, 0.05);
	int wrong = 0;
	int said = 0;

	for (int i = 0; i < tests; i++) {
		AbResult r;

		r.plan = *ab_plan(options(), 1);
		r.plan.ccs = {"cubic1", "cubic2"};
		for (unsigned block = 1; block <= 10; block++) {
			const double weather = noise(random); // that both have
			for (const std::string &cc : r.plan.ccs)
				r.runs.push_back(made_up(block, cc, 1e8 * std::exp(weather + noise(random)),
							 1e6 * std::exp(weather + noise(random))));
		}
		bool any = false;

		for (const AbComparison &c : ab_comparisons(r))
			any |= c.shown;
		wrong += any;
		said += ab_verdicts(ab_comparisons(r))[0].find("no difference") != std::string::npos;
	}
	EXPECT_LE(wrong, 36); // 5 % of 400, and four standard errors
	EXPECT_EQ(said, tests); // retransmits, always 0
}

TEST(ab, a_difference_that_is_there_is_found_beneath_the_weather)
{
	std::mt19937_64 random(10);
	std::normal_distribution<double> noise(0, 0.01);
	std::normal_distribution<double> weather(0, 0.5);
	AbResult r;

	r.plan = *ab_plan(options(), 1);
	for (unsigned block = 1; block <= 10; block++) {
		const double w = weather(random);

		// Drawn one after the other: in which order a call's arguments are, each compiler says for itself.
		for (const auto &[cc, rtt_ns] : { std::pair("swift", 1e6), std::pair("cubic", 1.1e6) }) {
			const double p99 = rtt_ns * std::exp(w + noise(random));
			const double rate_bps = 1e8 * std::exp(noise(random));

			r.runs.push_back(made_up(block, cc, rate_bps, p99));
		}
	}
	const auto comparisons = ab_comparisons(r);
	const AbComparison &p99 = find(comparisons, "rtt_ns.p99");

	EXPECT_TRUE(p99.shown) << p99.text;
	EXPECT_NEAR(p99.ratio->value, 1 / 1.1, 0.02);
	EXPECT_EQ(p99.text.find("p99 RTT 8.5 % lower than cubic (95 % CI -"), 0U) << p99.text;
	const AbComparison &goodput = find(comparisons, "goodput_bps");

	EXPECT_FALSE(goodput.shown);
	ASSERT_TRUE(goodput.detectable);
	EXPECT_NEAR(*goodput.detectable, 0.013, 0.008); // sqrt(2) * 1 %, ten pairs
	EXPECT_NE(goodput.text.find(" % would have been)"), std::string::npos) << goodput.text;
}

TEST(ab, json_is_the_common_form_and_can_be_reported)
{
	FakeHosts hosts;
	Quiet quiet;
	AbOptions o = options();

	double mbps = 40;

	o.runs = "6";
	hosts.iperf = [&](const AbCommand &c) { return iperf_says(c, mbps += 1, 1000); };
	const AbResult r = result_of(o, hosts, quiet);
	const std::string text = ab_json(r);
	const json j = json::parse(text);

	EXPECT_EQ(j["schema"], 1);
	EXPECT_EQ(j["kind"], "ab");
	for (const char *key : {"ccs", "runs", "parallel", "duration_s", "warmup_s", "servers", "clients", "port",
				"reverse", "dscp", "seed"})
		EXPECT_TRUE(j["parameters"].contains(key)) << key;
	EXPECT_EQ(j["parameters"]["seed"], "5");
	for (const auto &run : j["runs"]) {
		for (const char *key : {"cc", "block", "position", "n", "goodput_bps", "loss_ratio", "jain", "retransmits"})
			EXPECT_FALSE(run[key].is_null()) << key;
		for (const char *key : {"avg", "p50", "p99", "p999"})
			EXPECT_TRUE(run["rtt_ns"].contains(key)) << key;
	}
	const json &metric = j["summary"][0]["metrics"]["rtt_ns.p50"];

	EXPECT_EQ(metric["n"], 6);
	EXPECT_EQ(metric["ci95"].size(), 2U);
	EXPECT_DOUBLE_EQ(metric["ci_coverage"], 1 - 2.0 / 64);
	for (const char *key : {"a", "b", "metric", "pairs", "shift", "ratio", "cliffs_delta", "effect", "p", "p_holm",
				"shown", "detectable", "text"})
		EXPECT_TRUE(j["comparisons"][0].contains(key)) << key;

	const auto report = read_report("ab.json", text);

	ASSERT_TRUE(report) << report.error().text();
	EXPECT_NE(report_text(*report, {}).find("95 % confidence interval"), std::string::npos);
}

TEST(ab, durations)
{
	EXPECT_EQ(duration_text(0), "0 s");
	EXPECT_EQ(duration_text(59.4), "59 s");
	EXPECT_EQ(duration_text(59.6), "1 min 0 s");
	EXPECT_EQ(duration_text(250), "4 min 10 s");
	EXPECT_EQ(duration_text(7500), "2 h 5 min");
}

// --- Real processes --------------------------------------------------------------------------

namespace {

class Processes : public testing::Test {
protected:
	Processes()
	{
		sigemptyset(&stop_);
		sigaddset(&stop_, SIGUSR1);
		sigprocmask(SIG_BLOCK, &stop_, &before_);
		hosts_ = real_ab_hosts(stop_);
	}
	~Processes() override { sigprocmask(SIG_SETMASK, &before_, nullptr); }

	// A command that says its id and then never ends.
	static AbCommand endless() { return {"", {"sh", "-c", "echo $$; exec sleep 1000"}}; }
	// Ended before it said so, it never came as far as that which would go on.
	static bool alive(const AbOutput &o) { return !o.out.empty() && kill(std::stoi(o.out), 0) == 0; }

	sigset_t stop_{};
	sigset_t before_{};
	std::unique_ptr<AbHosts> hosts_;
};

} // namespace

TEST_F(Processes, output_errors_and_status)
{
	const auto o = hosts_->run({{"", {"sh", "-c", "echo out; echo one >&2; echo two >&2; exit 3"}},
				    {"", {"no-such-command-anywhere"}},
				    {"", {"sh", "-c", "kill -9 $$"}},
				    {"", {"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"}},
				    {"", {"sleep", "0.3"}}},
				   20, {});

	EXPECT_GE(o[4].ended_s, 0.3);
	EXPECT_EQ(o[0].status, 3);
	EXPECT_EQ(o[0].out, "out\n");
	EXPECT_EQ(o[0].complaint("-"), "two");
	EXPECT_EQ(o[1].status, 127);
	EXPECT_EQ(o[1].complaint("-"), "-");
	EXPECT_EQ(o[2].status, 128 + SIGKILL);
	EXPECT_EQ(o[3].out.size(), 3000000U);
}

TEST_F(Processes, what_takes_too_long_is_ended)
{
	const auto o = hosts_->run({endless()}, 1, {});

	EXPECT_EQ(o[0].end, AbOutput::End::too_late);
	EXPECT_EQ(o[0].complaint(""), "it did not end in time");
	EXPECT_FALSE(alive(o[0]));
}

TEST_F(Processes, what_does_not_want_to_end_is_killed)
{
	const auto o = hosts_->run({{"", {"sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"}}}, 1, {});

	EXPECT_EQ(o[0].end, AbOutput::End::too_late);
	EXPECT_FALSE(alive(o[0]));
}

TEST_F(Processes, companions_end_with_the_rest)
{
	AbCommand companion = endless();

	companion.companion = true;
	const auto o = hosts_->run({{"", {"true"}}, companion}, 60, {});

	EXPECT_EQ(o[0].status, 0);
	EXPECT_EQ(o[1].end, AbOutput::End::exited);
	EXPECT_TRUE(o[1].out.empty() || !alive(o[1])); // it may not have come so far
}

TEST_F(Processes, a_signal_ends_everything_and_nothing_begins_after)
{
	const std::string said = testing::TempDir() + "ab_test_said_" + std::to_string(getpid());
	const auto told = [&](const char *who) {
		AbCommand c = endless();

		c.argv.back() = "echo $$; echo >$0; exec sleep 1000";
		c.argv.push_back(said + who);
		return c;
	};
	int both = 0;
	const auto o = hosts_->run({told("1"), told("2")}, 60, [&](double) {
		if (std::filesystem::exists(said + "1") && std::filesystem::exists(said + "2") && both++ == 0)
			raise(SIGUSR1);
	});

	for (const char *who : {"1", "2"})
		std::filesystem::remove(said + who);

	EXPECT_TRUE(hosts_->stopped());
	EXPECT_FALSE(hosts_->pause(60)); // at once
	for (const AbOutput &one : o) {
		EXPECT_EQ(one.end, AbOutput::End::stopped);
		EXPECT_FALSE(one.out.empty());
		EXPECT_FALSE(alive(one));
	}
	EXPECT_EQ(hosts_->run({endless()}, 60, {})[0].end, AbOutput::End::stopped);
}

// What runs at the other end of ssh, with a shell in ssh's place.
TEST_F(Processes, the_other_end_of_ssh)
{
	const auto there = ssh_command("h", {"sh", "-c", "echo 'it'\"'\"'s'; exit 7"});

	EXPECT_EQ(there[there.size() - 2], "h");
	// A standard input that stays open.
	const auto o = hosts_->run(
		{{"", {"sh", "-c", "d=$(mktemp -d) && mkfifo $d/in && exec 3<>$d/in && rm -r $d && sh -c \"$0\" <&3", there.back()}}},
		60, {});

	EXPECT_EQ(o[0].out, "it's\n");
	EXPECT_EQ(o[0].status, 7);

	const auto endless_there =
		ssh_command("h", {"sh", "-c", "echo $$; exec sleep 1000"}).back();
	// Once it runs ssh is gone, and its standard input with it.
	const auto ended = hosts_->run(
		{{"", {"sh", "-c", "d=$(mktemp -d) && mkfifo $d/in && sh -c \"$0\" <$d/in | "
				   "{ exec 3>$d/in; rm -r $d; read pid; echo $pid; exec 3>&-; cat; }", endless_there}}},
		60, {});

	EXPECT_EQ(ended[0].end, AbOutput::End::exited);
	ASSERT_FALSE(ended[0].out.empty());
	EXPECT_FALSE(alive(ended[0]));
}
