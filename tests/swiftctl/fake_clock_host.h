// SPDX-License-Identifier: MIT
// NICs with clocks, drivers with moods, a module with its clock table, in virtual time.
#pragma once

#include <cstdint>
#include <linux/net_tstamp.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "clock_feeder.h"
#include "clock_world.h"
#include "fake_system.h"

namespace swift_test {

struct FakeNic {
	std::uint32_t ifindex = 0;
	swift::NicTimestamps t;
	Clocks clocks{37000000000, 50};
	bool stacked = false;
	bool tells = true; // SIOCGHWTSTAMP works
	int set_error = 0; // of SIOCSHWTSTAMP
	int tx_error = 0; // the same, if tx stamps are asked for
	int made_of_all = HWTSTAMP_FILTER_ALL; // what the driver makes of filter ALL
	int open_error = 0; // of /dev/ptpN
	int read_error = 0;
	int sets = 0;
};

inline swift::NicTimestamps able(int phc)
{
	swift::NicTimestamps t;

	t.can_hw_rx_all = true;
	t.phc_index = phc;
	t.rx_filters = 1U << HWTSTAMP_FILTER_NONE | 1U << HWTSTAMP_FILTER_ALL;
	t.tx_types = 1U << HWTSTAMP_TX_OFF | 1U << HWTSTAMP_TX_ON;
	t.now = swift::Stamping{};
	return t;
}

// FakeSystem with NICs.
class NicSystem : public FakeSystem {
public:
	std::map<std::string, FakeNic> nics;
	bool may_save = true;

	NicSystem()
	{
		add("eth0", 2, 0);
		add("eth1", 3, 1);
		nics["lo"].ifindex = 1;
		nics["lo"].t = {};
	}
	void add(const std::string &name, std::uint32_t ifindex, int phc)
	{
		nics[name].ifindex = ifindex;
		nics[name].t = able(phc);
	}
	swift::Stamping stamping(const std::string &dev) { return nics.at(dev).t.now.value(); }

	swift::Result<swift::NicTimestamps> timestamps(const std::string &dev) override
	{
		const auto at = nics.find(dev);

		if (at == nics.end())
			return swift::errno_error(dev, ENODEV);
		swift::NicTimestamps t = at->second.t;

		t.hw_rx_all_on = t.now && t.now->rx_filter == HWTSTAMP_FILTER_ALL;
		if (!at->second.tells)
			t.now.reset();
		return t;
	}
	swift::Result<swift::Stamping> set_stamping(const std::string &dev,
						    const swift::Stamping &wanted) override
	{
		const auto at = nics.find(dev);

		if (at == nics.end())
			return swift::errno_error(dev, ENODEV);
		FakeNic &n = at->second;

		n.sets++;
		if (n.set_error)
			return swift::errno_error(dev, n.set_error);
		if (n.tx_error && wanted.tx_type != HWTSTAMP_TX_OFF)
			return swift::errno_error(dev, n.tx_error);
		n.t.now = wanted;
		if (wanted.rx_filter == HWTSTAMP_FILTER_ALL)
			n.t.now->rx_filter = n.made_of_all;
		return *n.t.now;
	}
	swift::Result<void> replace_file(const std::string &path, const std::string &content,
					 unsigned mode) override
	{
		if (!may_save)
			return swift::errno_error("cannot write " + path, EROFS);
		return FakeSystem::replace_file(path, content, mode);
	}
};

class FakeClockHost : public swift::ClockHost {
public:
	struct Line {
		swift::ClockLine line;
		std::int64_t until_ns;
	};

	explicit FakeClockHost(NicSystem &system) : system_(system) {}

	std::int64_t now = 1000000000000;
	bool module = true;
	std::uint32_t busy = 0; // ifindex that somebody else feeds
	int set_error = 0;
	std::map<std::uint32_t, Line> lines; // ours
	std::vector<std::string> variants; // in BPF, that take clocks
	std::string bpf_error; // of one variant; the others are fed
	std::string napi_error;
	std::map<std::uint32_t, Line> bpf_lines;
	int asked_for_module = 0; // how often it was not there
	int asked_for_napis = 0;
	std::int64_t napis_take_ns = 0;
	int removed = 0;
	int sent = 0;
	std::vector<swift::Link> events;
	bool missed_events = false;
	int links_fail = 0; // so often

	std::int64_t now_ns() const override { return now; }
	std::string netns() const override { return "1"; }

	swift::Result<std::unique_ptr<swift::PhcDevice>> open_phc(int index) override
	{
		for (auto &[name, nic] : system_.nics)
			if (nic.t.phc_index == index) {
				if (nic.open_error)
					return swift::errno_error("cannot open /dev/ptp", nic.open_error);
				return std::unique_ptr<swift::PhcDevice>(
					std::make_unique<Device>(*this, name));
			}
		return swift::errno_error("cannot open /dev/ptp", ENOENT);
	}

	swift::Result<std::vector<swift::Link>> links() override
	{
		std::vector<swift::Link> all;

		if (links_fail > 0) {
			links_fail--;
			return swift::errno_error("the interfaces change faster than they can be read", EAGAIN);
		}
		for (const auto &[name, nic] : system_.nics)
			all.push_back({nic.ifindex, name, false, nic.stacked});
		return all;
	}
	swift::Result<std::vector<swift::Link>> link_changes() override
	{
		auto all = std::exchange(events, {});

		if (std::exchange(missed_events, false))
			return swift::errno_error("link events were missed", ENOBUFS);
		return all;
	}

	swift::Result<void> set_line(std::uint32_t ifindex, const swift::ClockLine &line,
				     std::uint32_t valid_ms) override
	{
		asked_for_module += !module;
		if (!module)
			return swift::Error{"not loaded", {}, {}, ENOENT};
		if (set_error)
			return swift::errno_error("the module refused", set_error);
		if (busy == ifindex)
			return swift::errno_error("the module refused", EBUSY);
		// What the ABI allows.
		const std::uint64_t one = 1ULL << 32;

		if (line.nic_ns >> 63 || line.host_ns > static_cast<std::uint64_t>(now) ||
		    line.ratio_q32 < one - one / 100 || line.ratio_q32 > one + one / 100 ||
		    line.error_ns > 1000000 || valid_ms < 1 || valid_ms > 60000)
			return swift::errno_error("the module refused", EINVAL);
		sent++;
		lines[ifindex] = {line, now + std::int64_t{valid_ms} * 1000000};
		return {};
	}
	swift::Result<void> remove_line(std::uint32_t ifindex) override
	{
		removed++;
		asked_for_module += !module;
		lines.erase(ifindex);
		return {};
	}
	swift::VariantsFed set_bpf_line(std::uint32_t ifindex, const swift::ClockLine &line, std::uint32_t valid_ms,
				   std::int64_t now_ns) override
	{
		swift::VariantsFed fed{variants, {}};

		if (!bpf_error.empty())
			fed.error = swift::Error{bpf_error};
		if (!variants.empty())
			bpf_lines[ifindex] = {line, now_ns + std::int64_t{valid_ms} * 1000000};
		return fed;
	}
	swift::Result<void> set_bpf_napis(std::uint32_t) override
	{
		asked_for_napis++;
		now += napis_take_ns;
		return napi_error.empty() ? swift::Result<void>() : swift::Error{napi_error};
	}
	void remove_bpf_line(std::uint32_t ifindex) override { bpf_lines.erase(ifindex); }
	std::string owner_of(std::uint32_t) override { return "swiftd (pid 812)"; }

	void wake_at(std::int64_t host_ns) override { wake_ = host_ns; }
	void clear_wake() override {}
	int fd() const override { return -1; }

	// Runs @feeder for so long; @each is called after each of its turns.
	template <typename Each>
	void run(swift::ClockFeeder &feeder, std::int64_t span_ms, Each each)
	{
		const std::int64_t end = now + span_ms * 1000000;

		while (wake_ <= end) {
			now = std::max(now, wake_);
			const std::int64_t before = wake_;

			feeder.dispatch();
			each();
			if (wake_ <= before)
				wake_ = before + 1; // a loop that spins would never end
			turns++;
		}
		now = end;
	}
	void run(swift::ClockFeeder &feeder, std::int64_t span_ms)
	{
		run(feeder, span_ms, [] {});
	}
	int turns = 0;

	// How wrong a stamp taken now would be; none without a valid line.
	std::optional<std::int64_t> error_ns(const std::string &dev) { return error_ns(dev, lines); }
	std::optional<std::int64_t> bpf_error_ns(const std::string &dev) { return error_ns(dev, bpf_lines); }
	std::optional<std::int64_t> error_ns(const std::string &dev, const std::map<std::uint32_t, Line> &in)
	{
		FakeNic &nic = system_.nics.at(dev);
		const auto at = in.find(nic.ifindex);

		if (at == in.end() || at->second.until_ns < now)
			return std::nullopt;
		return convert(at->second.line, nic.clocks.nic_at(now)) - now;
	}
	Clocks &clocks(const std::string &dev)
	{
		Clocks &c = system_.nics.at(dev).clocks;

		c.host_ns = now;
		return c;
	}

private:
	class Device : public swift::PhcDevice {
	public:
		Device(FakeClockHost &host, std::string name) : host_(host), name_(std::move(name)) {}

		swift::Result<std::vector<swift::PhcSample>> samples(swift::PhcMethod method, unsigned) override
		{
			const auto at = host_.system_.nics.find(name_);

			if (at == host_.system_.nics.end())
				return swift::errno_error("cannot read", ENODEV);
			if (at->second.read_error)
				return swift::errno_error("cannot read", at->second.read_error);
			if (method != swift::PhcMethod::extended_monotonic)
				return swift::errno_error("cannot read", EOPNOTSUPP);
			return std::vector<swift::PhcSample>{
				{host_.now, at->second.clocks.nic_at(host_.now), host_.now}};
		}
		swift::HostClocks host_clocks() override { return {host_.now, host_.now, host_.now}; }

	private:
		FakeClockHost &host_;
		std::string name_;
	};

	NicSystem &system_;
	std::int64_t wake_ = 0;
};

} // namespace swift_test
