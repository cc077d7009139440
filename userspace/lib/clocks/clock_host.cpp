// SPDX-License-Identifier: MIT
// ClockHost on the real host: system calls, and nothing that decides.
#include "clock_host.h"

#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "clock_client.h"
#include "clock_ns.h"
#include "fd.h"
#include "napi_ids.h"
#include "netns.h"
#include "system.h"

namespace swift {

namespace {

Result<void> wait_for(int epoll, int fd)
{
	epoll_event event{};

	event.events = EPOLLIN;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return errno_error("cannot wait for events", errno);
	return {};
}

class RealClockHost final : public ClockHost {
public:
	RealClockHost(Fd epoll, Fd timer, RouteEvents events, ClockClient client, std::uint64_t netns,
		      std::unique_ptr<VariantClocks> variants)
		: epoll_(std::move(epoll)), timer_(std::move(timer)), events_(std::move(events)),
		  client_(std::move(client)), netns_(netns), variants_(std::move(variants))
	{
	}

	std::int64_t now_ns() const override { return clock_ns(CLOCK_MONOTONIC); }

	std::string netns() const override
	{
		return std::to_string(netns_);
	}

	Result<std::unique_ptr<PhcDevice>> open_phc(int index) override
	{
		return swift::open_phc(index);
	}

	Result<std::vector<Link>> links() override { return list_links(); }

	Result<std::vector<Link>> link_changes() override
	{
		std::vector<Link> out;
		ASSIGN_OR_RETURN(const auto seen, events_.read([&](Bytes b) { parse_links(b, out); }));

		if (seen == RouteEvents::Seen::missed)
			return errno_error("link events were missed", ENOBUFS);
		return out;
	}

	Result<void> set_line(std::uint32_t ifindex, const ClockLine &line,
			      std::uint32_t valid_ms) override
	{
		return client_.set(ifindex, line, valid_ms);
	}

	Result<void> remove_line(std::uint32_t ifindex) override { return client_.remove(ifindex); }

	VariantsFed set_bpf_line(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
				 std::int64_t now_ns) override
	{
		return variants_->set(ifindex, line, valid_ms, now_ns);
	}

	Result<void> set_bpf_napis(std::uint32_t ifindex) override
	{
		const auto ids = napi_ids_.of(ifindex);

		return ids ? variants_->set_napis(ifindex, *ids) : Result<void>();
	}

	void remove_bpf_line(std::uint32_t ifindex) override { variants_->remove(ifindex); }

	std::string owner_of(std::uint32_t ifindex) override
	{
		const auto clocks = client_.all();

		if (clocks)
			for (const NicClock &c : *clocks)
				if (c.ifindex == ifindex && c.owner)
					return netlink_port_text(*real_system(), c.owner);
		return "somebody";
	}

	void wake_at(std::int64_t host_ns) override
	{
		itimerspec when{};

		// 0 would disarm it.
		host_ns = std::max<std::int64_t>(host_ns, 1);
		when.it_value.tv_sec = host_ns / ns_per_s;
		when.it_value.tv_nsec = host_ns % ns_per_s;
		timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
	}

	void clear_wake() override
	{
		std::uint64_t count = 0;

		while (::read(timer_.get(), &count, sizeof(count)) < 0 && errno == EINTR)
			continue;
	}

	int fd() const override { return epoll_.get(); }

private:
	Fd epoll_;
	Fd timer_;
	RouteEvents events_;
	ClockClient client_;
	std::uint64_t netns_;
	std::unique_ptr<VariantClocks> variants_;
	NapiIds napi_ids_;
};

} // namespace

Result<std::unique_ptr<ClockHost>> clock_host(std::unique_ptr<VariantClocks> variants)
{
	Fd epoll(epoll_create1(EPOLL_CLOEXEC));
	Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	auto events = RouteEvents::open(RTMGRP_LINK);
	auto client = ClockClient::open();
	auto netns = netns_cookie();

	if (!epoll || !timer)
		return errno_error("cannot make a timer", errno);
	if (!events)
		return events.error();
	if (!client)
		return client.error();
	if (!netns)
		return netns.error();
	for (const int fd : {timer.get(), events->fd()})
		RETURN_IF_ERROR(wait_for(epoll.get(), fd));
	return std::unique_ptr<ClockHost>(std::make_unique<RealClockHost>(
		std::move(epoll), std::move(timer), std::move(*events), std::move(*client), *netns, std::move(variants)));
}

} // namespace swift
