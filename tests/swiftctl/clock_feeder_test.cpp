// SPDX-License-Identifier: MIT
// The clock feeder among made-up NICs, drivers, programs and modules.
#include <gtest/gtest.h>

#include <algorithm>

#include "fake_clock_host.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr Stamping on = {HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL};
constexpr Stamping off = {HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_NONE};
constexpr Stamping ptp = {HWTSTAMP_TX_ON, HWTSTAMP_FILTER_PTP_V2_EVENT};
constexpr const char *memory = "/var/lib/tcp_swift/clock-1.json"; // root's
constexpr const char *service_memory = "/run/tcp_swift/clock-1.json"; // that swiftd can write

class Feeding : public testing::Test {
protected:
	NicSystem system_;
	FakeClockHost host_{system_};
	std::vector<FeedEvent> events_;
	std::unique_ptr<ClockFeeder> feeder_;

	Result<void> start(std::vector<std::string> ifaces = {"eth0"}, Keeper keeper = Keeper::tools)
	{
		feeder_ = std::make_unique<ClockFeeder>(
			system_, system_, host_, ClockFeederOptions{std::move(ifaces), 250, keeper},
			[this](const FeedEvent &e) { events_.push_back(e); });
		return feeder_->start();
	}
	void run(std::int64_t ms) { host_.run(*feeder_, ms); }
	// As SIGKILL would: nothing is put back.
	void kill()
	{
		const auto files = system_.files;
		const auto nics = system_.nics;

		feeder_.reset();
		system_.files = files;
		for (const auto &[name, nic] : nics)
			system_.nics[name].t = nic.t;
		host_.lines.clear();
		host_.bpf_lines.clear();
		events_.clear();
	}
	FeedStatus status(const std::string &dev = "eth0") const
	{
		for (const FeedStatus &s : feeder_->status())
			if (s.iface == dev)
				return s;
		return {};
	}
	std::ptrdiff_t told(const std::string &words) const
	{
		return std::count_if(events_.begin(), events_.end(), [&](const FeedEvent &e) {
			return e.text.find(words) != std::string::npos;
		});
	}
	void link(const std::string &dev, bool gone = false)
	{
		host_.events.push_back({system_.nics.at(dev).ifindex, dev, gone,
					system_.nics.at(dev).stacked});
	}
};

} // namespace

TEST_F(Feeding, turns_stamping_on_feeds_and_puts_it_back)
{
	ASSERT_TRUE(start());
	EXPECT_EQ(system_.stamping("eth0"), on);
	run(20);
	EXPECT_EQ(status().state, FeedState::fed);
	run(2000);

	std::int64_t worst = 0;
	int missing = 0;

	host_.run(*feeder_, 10000, [&] {
		const auto e = host_.error_ns("eth0");

		missing += !e;
		worst = std::max(worst, std::abs(e.value_or(0)));
	});
	EXPECT_EQ(missing, 0);
	EXPECT_LT(worst, 50);
	EXPECT_EQ(told("stamping set to rx all, tx on (was rx none, tx off)"), 1);
	EXPECT_EQ(told("fed from /dev/ptp0"), 1);
	EXPECT_TRUE(system_.files.contains(memory));

	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), off);
	EXPECT_EQ(system_.stamping("eth1"), off);
	EXPECT_EQ(system_.nics["eth1"].sets, 0);
	EXPECT_TRUE(host_.lines.empty());
	EXPECT_FALSE(system_.files.contains(memory));
	EXPECT_TRUE(std::none_of(events_.begin(), events_.end(), [](const auto &e) { return e.trouble; }));
}

TEST_F(Feeding, sleeps_between_readings)
{
	ASSERT_TRUE(start());
	run(1000);
	const int before = host_.turns;

	run(10000);
	EXPECT_LE(host_.turns - before, 42);
}

TEST_F(Feeding, without_names_feeds_all_that_can)
{
	system_.add("vlan7", 9, 0);
	system_.nics["vlan7"].stacked = true;
	system_.add("old0", 8, 4);
	system_.nics["old0"].t.can_hw_rx_all = false;
	ASSERT_TRUE(start({}));
	run(100);
	EXPECT_EQ(feeder_->status().size(), 2U);
	EXPECT_EQ(status("eth0").state, FeedState::fed);
	EXPECT_EQ(status("eth1").state, FeedState::fed);
	EXPECT_EQ(system_.nics["vlan7"].sets + system_.nics["old0"].sets, 0);
}

TEST_F(Feeding, what_was_on_stays_on)
{
	system_.nics["eth0"].t.now = on;
	ASSERT_TRUE(start());
	run(3000);
	EXPECT_EQ(system_.nics["eth0"].sets, 0);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), on);
}

TEST_F(Feeding, widens_the_filter_of_ptp4l_and_narrows_it_again)
{
	system_.nics["eth0"].t.now = ptp;
	ASSERT_TRUE(start());
	EXPECT_EQ(system_.stamping("eth0"), on);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), ptp);
}

TEST_F(Feeding, leaves_alone_what_another_program_has_set_meanwhile)
{
	ASSERT_TRUE(start());
	run(500);
	system_.nics["eth0"].t.now = ptp;
	run(3000);
	EXPECT_EQ(status().state, FeedState::yielded);
	EXPECT_EQ(told("another program (ptp4l?) has set its stamping to rx ptpv2-event"), 1);
	EXPECT_FALSE(host_.error_ns("eth0"));
	run(30000);
	EXPECT_EQ(system_.stamping("eth0"), ptp);
	EXPECT_EQ(told("another program"), 1);

	// It is done: ours again.
	system_.nics["eth0"].t.now = off;
	run(6000);
	EXPECT_EQ(system_.stamping("eth0"), on);
	EXPECT_EQ(status().state, FeedState::fed);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), off);
}

TEST_F(Feeding, what_changed_just_before_the_end_is_left_too)
{
	ASSERT_TRUE(start());
	run(1000);
	system_.nics["eth0"].t.now = ptp;
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), ptp);
	EXPECT_EQ(told("somebody else has changed the stamping meanwhile"), 1);
}

TEST_F(Feeding, a_reset_that_loses_the_stamping_is_made_good)
{
	ASSERT_TRUE(start());
	run(5000);
	system_.nics["eth0"].t.now = off;
	run(2500);
	EXPECT_EQ(system_.stamping("eth0"), on);
	EXPECT_EQ(told("was lost (a reset?)"), 1);

	// With a link event at the next reading.
	system_.nics["eth0"].t.now = off;
	link("eth0");
	run(300);
	EXPECT_EQ(system_.stamping("eth0"), on);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), off);
}

TEST_F(Feeding, does_not_fight_over_the_stamping)
{
	ASSERT_TRUE(start());
	for (int i = 0; i < 20; i++) {
		system_.nics["eth0"].t.now = off;
		run(2500);
	}
	EXPECT_LE(system_.nics["eth0"].sets, 8);
	EXPECT_GE(told("turned off again and again"), 1);
	run(120000);
	EXPECT_EQ(system_.stamping("eth0"), on);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, killed_and_run_again_it_still_knows_what_was_there)
{
	system_.nics["eth0"].t.now = ptp;
	ASSERT_TRUE(start({"eth0", "eth1"}));
	run(500);
	kill();
	EXPECT_EQ(system_.stamping("eth0"), on);
	// Now only one of the two: the other is put right at once.
	ASSERT_TRUE(start({"eth0"}));
	EXPECT_EQ(system_.stamping("eth1"), off);
	EXPECT_EQ(told("stamping is back to rx none, tx off, which a feeder that was killed had left"), 1);
	run(500);
	EXPECT_EQ(system_.stamping("eth0"), on);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), ptp);
	EXPECT_FALSE(system_.files.contains(memory));
}

TEST_F(Feeding, after_a_kill_what_another_has_set_is_not_ours)
{
	ASSERT_TRUE(start());
	kill();
	system_.nics["eth0"].t.now = ptp;
	ASSERT_TRUE(start({"eth1"}));
	EXPECT_EQ(system_.stamping("eth0"), ptp);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), ptp);
}

TEST_F(Feeding, a_state_file_that_makes_no_sense_stops_it)
{
	for (const char *text : {"", "{", "[]", R"({"schema":2,"nics":[]})", R"({"schema":1})",
				 R"({"schema":1,"nics":[{"iface":"eth0","ifindex":2}]})",
				 R"({"schema":1,"nics":[{"iface":"../eth0","ifindex":2,"before":{"tx_type":0,"rx_filter":0},"written":{"tx_type":0,"rx_filter":1}}]})",
				 R"({"schema":1,"nics":[{"iface":"eth0","ifindex":2,"before":{"tx_type":77,"rx_filter":0},"written":{"tx_type":0,"rx_filter":1}}]})",
				 R"({"schema":1,"nics":[{"iface":"eth0","ifindex":2,"before":{"tx_type":0,"rx_filter":-1},"written":{"tx_type":0,"rx_filter":1}}]})",
				 R"({"schema":1,"nics":[{"iface":"eth0","ifindex":-2,"before":{"tx_type":0,"rx_filter":0},"written":{"tx_type":0,"rx_filter":1}}]})"}) {
		system_.files[memory] = text;
		const auto started = start();

		ASSERT_FALSE(started) << text;
		EXPECT_NE(started.error().text().find(memory), std::string::npos);
		EXPECT_EQ(system_.stamping("eth0"), off);
		EXPECT_EQ(system_.files[memory], text);
		feeder_.reset();
	}
}

TEST_F(Feeding, swiftd_remembers_in_its_own_folder)
{
	ASSERT_TRUE(start({"eth0"}, Keeper::service));
	EXPECT_TRUE(system_.files.contains(service_memory));
	EXPECT_FALSE(system_.files.contains(memory));
	kill();
	ASSERT_TRUE(start({"eth0"}, Keeper::service));
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), off);
}

// NICs begin anew with the boot, unlike the folder.
TEST_F(Feeding, what_was_before_a_reboot_is_forgotten)
{
	system_.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	ASSERT_TRUE(start());
	kill();
	system_.files["/proc/sys/kernel/random/boot_id"] = "two\n";
	EXPECT_TRUE(StampingMemory(system_, "1", Keeper::tools).load()->empty());
	system_.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	EXPECT_EQ(StampingMemory(system_, "1", Keeper::tools).load()->size(), 1U);
}

TEST_F(Feeding, one_feeder_at_a_time)
{
	const auto other = system_.lock("/run/tcp_swift/clock-1.lock");
	const auto started = start();

	ASSERT_FALSE(started);
	EXPECT_EQ(started.error().code, EBUSY);
	EXPECT_EQ(started.error().text(), "another clock feeder runs in this network namespace: swiftctl");
	EXPECT_EQ(system_.stamping("eth0"), off);
}

TEST_F(Feeding, changes_nothing_that_it_cannot_remember)
{
	system_.may_save = false;
	ASSERT_TRUE(start());
	run(10000);
	EXPECT_EQ(system_.nics["eth0"].sets, 0);
	EXPECT_EQ(status().state, FeedState::failed);
	system_.may_save = true;
	run(6000);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, a_driver_that_refuses)
{
	system_.nics["eth0"].set_error = ERANGE;
	system_.nics["eth1"].set_error = EPERM;
	ASSERT_TRUE(start({"eth0", "eth1"}));
	run(1000);
	EXPECT_EQ(told("refuses rx filter all; it offers: none, all"), 1);
	EXPECT_EQ(told("CAP_NET_ADMIN"), 1);
	EXPECT_TRUE(host_.lines.empty());
	run(60000);
	EXPECT_EQ(events_.size(), 2U);
	feeder_->stop();
	EXPECT_EQ(events_.size(), 2U);
}

TEST_F(Feeding, a_driver_that_makes_something_else_of_it)
{
	system_.nics["eth0"].made_of_all = HWTSTAMP_FILTER_PTP_V2_EVENT;
	ASSERT_TRUE(start());
	EXPECT_EQ(status().state, FeedState::unfit);
	EXPECT_EQ(told("made rx filter ptpv2-event of all"), 1);
	EXPECT_EQ(system_.stamping("eth0"), off);
	EXPECT_FALSE(system_.files.contains(memory));
}

TEST_F(Feeding, a_driver_without_tx_stamps_and_one_that_does_not_tell)
{
	system_.nics["eth0"].tx_error = ERANGE;
	system_.nics["eth1"].tells = false;
	ASSERT_TRUE(start({"eth0", "eth1"}));
	run(5000);
	EXPECT_EQ(system_.stamping("eth0"), (Stamping{HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_ALL}));
	EXPECT_EQ(status("eth0").state, FeedState::fed);
	EXPECT_EQ(status("eth1").state, FeedState::fed);
	EXPECT_EQ(system_.nics["eth1"].sets, 1);
	feeder_->stop();
	EXPECT_EQ(system_.stamping("eth0"), off);
	EXPECT_EQ(system_.stamping("eth1"), off);
}

TEST_F(Feeding, nics_that_are_not_fit)
{
	system_.nics["eth0"].t.can_hw_rx_all = false;
	system_.nics["eth0"].t.rx_filters = 1U << HWTSTAMP_FILTER_NONE | 1U << HWTSTAMP_FILTER_PTP_V2_EVENT;
	system_.nics["eth1"].t.phc_index = -1;
	system_.add("vlan7", 9, 0);
	system_.nics["vlan7"].stacked = true;
	ASSERT_TRUE(start({"eth0", "eth1", "vlan7"}));
	run(1000);
	EXPECT_EQ(told("cannot stamp all packets; its filters: none, ptpv2-event"), 1);
	EXPECT_EQ(told("no clock of its own"), 1);
	EXPECT_EQ(told("on top of another interface"), 1);
	EXPECT_EQ(events_.size(), 3U);
	EXPECT_EQ(system_.nics["vlan7"].sets, 0);
}

TEST_F(Feeding, an_interface_that_goes_and_comes_back)
{
	ASSERT_TRUE(start());
	run(1000);
	const FakeNic nic = system_.nics["eth0"];

	link("eth0", true);
	system_.nics.erase("eth0");
	run(500);
	EXPECT_EQ(status().state, FeedState::absent);
	run(60000);

	// Under another number, with another clock.
	system_.nics["eth0"] = nic;
	system_.nics["eth0"].ifindex = 12;
	system_.nics["eth0"].t = able(7);
	link("eth0");
	// An event wakes it: as if the descriptor became readable.
	feeder_->dispatch();
	run(200);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_EQ(status().ifindex, 12U);
	EXPECT_EQ(status().phc_index, 7);
	EXPECT_TRUE(host_.lines.contains(12));
}

// A list of links that could not be read is read later, not never.
TEST_F(Feeding, a_nic_that_came_while_links_could_not_be_read_is_fed)
{
	ASSERT_TRUE(start({}));
	run(3000);
	system_.add("eth2", 9, 5);
	host_.missed_events = true;
	host_.links_fail = 3;
	run(12000);
	EXPECT_TRUE(host_.error_ns("eth2"));
}

TEST_F(Feeding, links_that_change_too_fast_at_the_start_are_read_later)
{
	host_.links_fail = 3;
	ASSERT_TRUE(start());
	EXPECT_EQ(status().state, FeedState::absent);
	run(5000);
	EXPECT_TRUE(host_.error_ns("eth0"));
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, a_missed_departure_is_found_out)
{
	ASSERT_TRUE(start());
	run(1000);
	system_.nics.erase("eth0");
	host_.missed_events = true;
	run(300);
	EXPECT_EQ(status().state, FeedState::absent);
	system_.add("eth0", 20, 3);
	host_.missed_events = true;
	feeder_->dispatch();
	run(300);
	EXPECT_EQ(status().state, FeedState::fed);

	// No event at all: the ioctls tell.
	system_.nics.erase("eth0");
	run(3000);
	EXPECT_EQ(status().state, FeedState::absent);
}

TEST_F(Feeding, a_name_that_changes)
{
	ASSERT_TRUE(start());
	run(1000);
	auto node = system_.nics.extract("eth0");

	node.key() = "lan0";
	system_.nics.insert(std::move(node));
	link("lan0");
	run(300);
	EXPECT_EQ(status("eth0").state, FeedState::absent);
	EXPECT_EQ(system_.stamping("lan0"), off);
}

TEST_F(Feeding, hotplug_without_names)
{
	ASSERT_TRUE(start({}));
	run(1000);
	system_.add("eth5", 30, 5);
	link("eth5");
	feeder_->dispatch();
	run(200);
	EXPECT_EQ(status("eth5").state, FeedState::fed);
	link("eth5", true);
	system_.nics.erase("eth5");
	run(500);
	EXPECT_EQ(feeder_->status().size(), 2U);
}

TEST_F(Feeding, a_clock_that_goes)
{
	ASSERT_TRUE(start());
	run(1000);
	system_.nics["eth0"].read_error = ENODEV;
	system_.nics["eth0"].open_error = ENOENT;
	run(400);
	EXPECT_FALSE(host_.error_ns("eth0"));
	run(5000);
	EXPECT_EQ(status().state, FeedState::failed);
	EXPECT_EQ(told("its clock is gone"), 1);
	system_.nics["eth0"].read_error = 0;
	system_.nics["eth0"].open_error = 0;
	run(1100);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_TRUE(host_.error_ns("eth0"));
}

TEST_F(Feeding, a_clock_that_may_not_be_opened)
{
	system_.nics["eth0"].open_error = EACCES;
	ASSERT_TRUE(start());
	EXPECT_EQ(status().state, FeedState::failed);
	EXPECT_EQ(told("needs root"), 1);
}

TEST_F(Feeding, readings_that_fail_now_and_then)
{
	ASSERT_TRUE(start());
	run(3000);
	system_.nics["eth0"].read_error = EIO;
	run(450);
	EXPECT_EQ(status().state, FeedState::fed);
	system_.nics["eth0"].read_error = 0;
	run(300);
	EXPECT_TRUE(host_.error_ns("eth0"));
	system_.nics["eth0"].read_error = EIO;
	run(1100);
	EXPECT_EQ(status().state, FeedState::failed);
	EXPECT_FALSE(host_.error_ns("eth0"));
	system_.nics["eth0"].read_error = 0;
	run(1000);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, a_step_is_told_to_the_module_at_once)
{
	for (const std::int64_t step : {std::int64_t{1000}, std::int64_t{-1000}, std::int64_t{-37000000000},
					std::int64_t{3600000000000}}) {
		events_.clear();
		ASSERT_TRUE(start());
		run(5000);
		const int removed = host_.removed;
		bool wrong_after = false;
		bool gone = false;

		host_.clocks("eth0").step(step);
		host_.run(*feeder_, 1000, [&] {
			gone |= host_.removed > removed;
			const auto e = host_.error_ns("eth0");

			wrong_after |= gone && e && std::abs(*e) > 50;
		});
		EXPECT_EQ(host_.removed, removed + 1) << step;
		EXPECT_FALSE(wrong_after) << step;
		EXPECT_EQ(told("stepped or slewed"), 1) << step;
		EXPECT_EQ(told(step == 1000 ? "by +1.00 us" : step == -37000000000 ? "by -37.0 s" : "by "), 1);
		EXPECT_EQ(status().state, FeedState::fed);
		feeder_.reset();
	}
}

TEST_F(Feeding, a_step_costs_no_more_than_30_ms_of_line)
{
	ASSERT_TRUE(start());
	run(5000);
	host_.clocks("eth0").step(1000000);
	run(250);

	// The reading that saw it has removed the line; the next one brings a new one.
	run(30);
	EXPECT_TRUE(host_.error_ns("eth0"));
	EXPECT_LE(std::abs(*host_.error_ns("eth0")), 50);
}

TEST_F(Feeding, a_clock_that_does_not_run_alike)
{
	host_.clocks("eth0").slew(30000); // 3 %
	ASSERT_TRUE(start());
	run(5000);
	EXPECT_EQ(status().state, FeedState::failed);
	EXPECT_EQ(told("do not run alike"), 1);
	EXPECT_TRUE(host_.lines.empty());
	host_.clocks("eth0").slew(0);
	run(5000);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, the_module_comes_and_goes)
{
	host_.module = false;
	ASSERT_TRUE(start());
	run(5000);
	EXPECT_EQ(status().state, FeedState::no_module);
	EXPECT_EQ(told("neither the module tcp_swift (or it is too old) nor a BPF variant that takes clocks "
		       "(bpf_swift) is loaded"),
		  1);
	host_.module = true;
	run(1300);
	EXPECT_EQ(status().state, FeedState::fed);
	host_.module = false;
	host_.lines.clear();
	run(1000);
	EXPECT_EQ(status().state, FeedState::no_module);
	host_.module = true;
	run(1300);
	EXPECT_EQ(status().state, FeedState::fed);
	// It has measured meanwhile: good at once.
	EXPECT_LT(std::abs(*host_.error_ns("eth0")), 50);
}

TEST_F(Feeding, bpf_variants_without_the_module)
{
	host_.module = false;
	host_.variants = {"bpf_swift"};
	ASSERT_TRUE(start());
	run(3000);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_FALSE(status().module);
	EXPECT_EQ(status().variants, std::vector<std::string>{"bpf_swift"});
	EXPECT_EQ(told("fed from /dev/ptp0 (extended readings) to bpf_swift"), 1);
	EXPECT_TRUE(std::none_of(events_.begin(), events_.end(), [](const auto &e) { return e.trouble; }));
	host_.run(*feeder_, 3000, [&] {
		ASSERT_TRUE(host_.bpf_error_ns("eth0"));
		EXPECT_LT(std::abs(*host_.bpf_error_ns("eth0")), 50);
	});
	feeder_->stop();
	EXPECT_TRUE(host_.bpf_lines.empty());
	EXPECT_EQ(system_.stamping("eth0"), off);
}

TEST_F(Feeding, bpf_variants_beside_the_module_come_and_go)
{
	ASSERT_TRUE(start());
	run(1000);
	EXPECT_EQ(told("fed from /dev/ptp0 (extended readings)"), 1);
	host_.variants = {"bpf_swift", "other"};
	run(300);
	EXPECT_EQ(told("fed from /dev/ptp0 (extended readings) to the module and bpf_swift, other"), 1);
	EXPECT_TRUE(host_.bpf_error_ns("eth0"));
	host_.module = false; // unloaded: the variants are fed on, without a pause
	run(300);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_EQ(told("readings) to bpf_swift, other"), 1);
	host_.variants.clear();
	run(300);
	EXPECT_EQ(status().state, FeedState::no_module);
	EXPECT_TRUE(host_.bpf_lines.empty());
	EXPECT_EQ(told("neither the module"), 1);
	host_.variants = {"bpf_swift"};
	run(1300);
	EXPECT_EQ(status().state, FeedState::fed);
	host_.module = true;
	run(1300);
	EXPECT_TRUE(status().module);
	EXPECT_EQ(told("to the module and bpf_swift"), 2);
}

// The kernel runs modprobe for each question about a family that it does not have.
TEST_F(Feeding, the_missing_module_is_looked_for_once_a_second)
{
	host_.module = false;
	host_.variants = {"bpf_swift"};
	ASSERT_TRUE(start({"eth0", "eth1"}));
	run(10000);
	EXPECT_EQ(status("eth1").state, FeedState::fed);
	EXPECT_GE(host_.asked_for_module, 8);
	EXPECT_LE(host_.asked_for_module, 11);
	// Nor has it a line to be removed.
	host_.asked_for_module = 0;
	for (int i = 0; i < 10; i++) {
		host_.clocks("eth0").step(1000000);
		run(300);
	}
	EXPECT_LE(host_.asked_for_module, 4);
	// Without anybody to feed it is no other.
	host_.variants.clear();
	run(1000);
	host_.asked_for_module = 0;
	run(10000);
	EXPECT_GE(host_.asked_for_module, 8);
	EXPECT_LE(host_.asked_for_module, 11);
}

// The kernel looks NAPIs up under a lock that others hold for long.
TEST_F(Feeding, napis_are_asked_for_seldom_and_after_the_line)
{
	ASSERT_TRUE(start());
	run(5000);
	EXPECT_EQ(host_.asked_for_napis, 0); // there is nobody to tell
	host_.variants = {"bpf_swift"};
	run(300);
	EXPECT_EQ(host_.asked_for_napis, 1); // one has appeared
	run(20000);
	EXPECT_GE(host_.asked_for_napis, 9); // every 2 s
	EXPECT_LE(host_.asked_for_napis, 12);
	run(1900 - 250);
	host_.asked_for_napis = 0;
	link("eth0");
	run(300);
	EXPECT_GE(host_.asked_for_napis, 1);
	EXPECT_LE(host_.asked_for_napis, 2);
	// A line is as long good as the module's, however long the kernel takes.
	host_.napis_take_ns = 100000000;
	run(2500);
	EXPECT_EQ(host_.bpf_lines.at(2).until_ns, host_.lines.at(2).until_ns);
}

TEST_F(Feeding, napis_that_cannot_be_told_end_nothing)
{
	host_.variants = {"bpf_swift"};
	host_.napi_error = "cannot write /sys/fs/bpf/y";
	ASSERT_TRUE(start());
	run(10000);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_EQ(status().variants, host_.variants);
	EXPECT_EQ(told("BPF variants cannot be told its NAPIs: cannot write /sys/fs/bpf/y"), 1);
}

TEST_F(Feeding, one_variant_that_cannot_be_fed_is_told_beside_the_others)
{
	host_.variants = {"bpf_swift"};
	host_.bpf_error = "cannot write /sys/fs/bpf/x";
	ASSERT_TRUE(start());
	run(5000);
	EXPECT_TRUE(status().module);
	EXPECT_EQ(status().variants, host_.variants);
	EXPECT_EQ(told("BPF variants cannot be fed: cannot write /sys/fs/bpf/x"), 1);
	host_.module = false;
	run(3000);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_TRUE(host_.bpf_error_ns("eth0"));
}

TEST_F(Feeding, a_step_is_told_to_bpf_variants_at_once)
{
	host_.module = false;
	host_.variants = {"bpf_swift"};
	ASSERT_TRUE(start());
	run(5000);
	bool gone = false;

	host_.clocks("eth0").step(1000000);
	host_.run(*feeder_, 1000, [&] {
		const auto e = host_.bpf_error_ns("eth0");

		gone |= !e;
		EXPECT_TRUE(!gone || !e || std::abs(*e) <= 50);
	});
	EXPECT_TRUE(gone);
	EXPECT_TRUE(host_.bpf_error_ns("eth0"));
	system_.nics["eth0"].t.now = ptp; // another program's now
	run(3000);
	EXPECT_EQ(status().state, FeedState::yielded);
	EXPECT_TRUE(host_.bpf_lines.empty());
}

TEST_F(Feeding, bpf_variants_that_cannot_be_fed)
{
	host_.bpf_error = "cannot write /sys/fs/bpf/x";
	ASSERT_TRUE(start());
	run(5000);
	EXPECT_EQ(status().state, FeedState::fed); // the module is
	EXPECT_EQ(told("BPF variants cannot be fed: cannot write /sys/fs/bpf/x"), 1);
	host_.module = false;
	run(3000);
	EXPECT_EQ(status().state, FeedState::no_module);
	EXPECT_EQ(told("the module tcp_swift is not loaded (or too old), and BPF variants cannot be fed"), 1);
}

TEST_F(Feeding, what_the_module_does_not_take_bpf_variants_do_not_have)
{
	host_.variants = {"bpf_swift"};
	ASSERT_TRUE(start());
	run(2000);
	ASSERT_TRUE(host_.bpf_error_ns("eth0"));
	for (const int error : {EINVAL, EPERM}) {
		host_.set_error = error;
		run(2000);
		EXPECT_EQ(status().state, FeedState::failed);
		EXPECT_TRUE(host_.bpf_lines.empty());
		EXPECT_TRUE(status().variants.empty());
	}
	host_.set_error = 0;
	run(31000);
	EXPECT_TRUE(host_.bpf_error_ns("eth0"));
	host_.busy = 2; // another feeder's, which feeds the variants too
	run(1000);
	EXPECT_EQ(status().state, FeedState::busy);
	EXPECT_TRUE(host_.bpf_lines.empty());
}

TEST_F(Feeding, two_feeders)
{
	host_.busy = 2;
	ASSERT_TRUE(start());
	run(60000);
	EXPECT_EQ(status().state, FeedState::busy);
	EXPECT_EQ(told("swiftd (pid 812) feeds it already"), 1);
	EXPECT_EQ(host_.sent, 0);
	EXPECT_EQ(host_.removed, 0);
	host_.busy = 0;
	run(5300);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, a_module_that_refuses)
{
	host_.set_error = EINVAL;
	ASSERT_TRUE(start());
	run(10000);
	EXPECT_EQ(status().state, FeedState::failed);
	EXPECT_EQ(told("the module refused"), 1);
	host_.set_error = EPERM;
	run(3000);
	EXPECT_EQ(told("may not feed the module"), 1);
	host_.set_error = 0;
	run(31000);
	EXPECT_EQ(status().state, FeedState::fed);
}

TEST_F(Feeding, a_dead_feeders_line_is_soon_dead_too)
{
	ASSERT_TRUE(start());
	run(5000);
	ASSERT_TRUE(host_.error_ns("eth0"));
	host_.now += 800000000;
	EXPECT_FALSE(host_.error_ns("eth0"));
}

TEST_F(Feeding, a_feeder_that_was_stopped_goes_on)
{
	ASSERT_TRUE(start());
	run(5000);
	host_.now += 3600000000000; // SIGSTOP
	host_.clocks("eth0");
	feeder_->dispatch();
	run(1000);
	EXPECT_EQ(status().state, FeedState::fed);
	EXPECT_LT(std::abs(*host_.error_ns("eth0")), 50);
}
