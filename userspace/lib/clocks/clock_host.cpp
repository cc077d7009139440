// SPDX-License-Identifier: MIT
// ClockHost on the real host: system calls, and nothing that decides.
#include "clock_host.h"

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "clock_ns.h"
#include "diag.h"
#include "fd.h"
#include "genl.h"
#include "mnl_socket.h"
#include "netlink_bytes.h"
#include "system.h"

namespace swift {

namespace {

Result<MnlSocket> route_socket(unsigned groups, int flags)
{
	MnlSocket socket(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | flags));

	if (!socket)
		return errno_error("cannot open a route netlink socket", errno);
	if (mnl_socket_bind(socket.get(), groups, MNL_SOCKET_AUTOPID) < 0)
		return errno_error("cannot bind a route netlink socket", errno);
	return socket;
}

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
	RealClockHost(Fd epoll, Fd timer, MnlSocket events, ClockClient client, std::uint64_t netns)
		: epoll_(std::move(epoll)), timer_(std::move(timer)), events_(std::move(events)),
		  client_(std::move(client)), netns_(netns), bpf_(real_bpf_host()), bpf_clocks_(*bpf_, netns)
	{
	}

	std::int64_t now_ns() const override
	{
		timespec t{};

		clock_gettime(CLOCK_MONOTONIC, &t);
		return t.tv_sec * ns_per_s + t.tv_nsec;
	}

	std::string netns() const override
	{
		return std::to_string(netns_);
	}

	Result<std::unique_ptr<PhcDevice>> open_phc(int index) override
	{
		return swift::open_phc(index);
	}

	Result<std::vector<Link>> links() override
	{
		auto socket = route_socket(0, 0);
		std::array<char, MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(ifinfomsg))> request{};
		std::vector<std::byte> buffer(netlink_receive_bytes);
		std::vector<Link> out;

		if (!socket)
			return socket.error();
		nlmsghdr *head = mnl_nlmsg_put_header(request.data());

		head->nlmsg_type = RTM_GETLINK;
		head->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
		mnl_nlmsg_put_extra_header(head, sizeof(ifinfomsg));
		if (mnl_socket_sendto(socket->get(), head, head->nlmsg_len) < 0)
			return errno_error("cannot ask for the interfaces", errno);
		for (bool done = false; !done;) {
			const ssize_t n =
				mnl_socket_recvfrom(socket->get(), buffer.data(), buffer.size());

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return errno_error("cannot read the interfaces", errno);

			const NetlinkStatus status =
				parse_links({buffer.data(), static_cast<std::size_t>(n)}, out);

			if (status.error)
				return errno_error("cannot read the interfaces", status.error);
			done = status.done;
		}
		return out;
	}

	Result<std::vector<Link>> link_changes() override
	{
		std::vector<std::byte> buffer(netlink_receive_bytes);
		std::vector<Link> out;
		bool missed = false;

		for (;;) {
			const ssize_t n =
				mnl_socket_recvfrom(events_.get(), buffer.data(), buffer.size());

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
				break;
			if (n < 0 && errno != ENOBUFS)
				return errno_error("cannot read link events", errno);
			if (n < 0)
				missed = true;
			else
				parse_links({buffer.data(), static_cast<std::size_t>(n)}, out);
		}
		if (missed)
			return errno_error("link events were missed", ENOBUFS);
		return out;
	}

	Result<void> set_line(std::uint32_t ifindex, const ClockLine &line,
			      std::uint32_t valid_ms) override
	{
		return client_.set(ifindex, line, valid_ms);
	}

	Result<void> remove_line(std::uint32_t ifindex) override { return client_.remove(ifindex); }

	BpfFed set_bpf_line(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
			    std::int64_t now_ns) override
	{
		return bpf_clocks_.set(ifindex, line, valid_ms, now_ns);
	}

	Result<void> set_bpf_napis(std::uint32_t ifindex) override
	{
		const auto ids = napi_ids_.of(ifindex);

		return ids ? bpf_clocks_.set_napis(ifindex, *ids) : Result<void>();
	}

	void remove_bpf_line(std::uint32_t ifindex) override { bpf_clocks_.remove(ifindex); }

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
	MnlSocket events_;
	ClockClient client_;
	std::uint64_t netns_;
	std::unique_ptr<BpfHost> bpf_;
	BpfClocks bpf_clocks_;
	NapiIds napi_ids_;
};

} // namespace

Result<std::unique_ptr<ClockHost>> real_clock_host()
{
	Fd epoll(epoll_create1(EPOLL_CLOEXEC));
	Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	auto events = route_socket(RTMGRP_LINK, SOCK_NONBLOCK);
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
	for (const int fd : {timer.get(), mnl_socket_get_fd(events->get())})
		if (auto done = wait_for(epoll.get(), fd); !done)
			return done.error();
	return std::unique_ptr<ClockHost>(std::make_unique<RealClockHost>(
		std::move(epoll), std::move(timer), std::move(*events), std::move(*client), *netns));
}

} // namespace swift
