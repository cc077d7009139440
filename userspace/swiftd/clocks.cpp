// SPDX-License-Identifier: MIT
#include "clocks.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "bpf_clocks.h"
#include "printable.h"
#include "system.h"

namespace swift {

ClockRow clock_row(const FeedStatus &status, std::int64_t now_ns)
{
	ClockRow row;

	row.dev = printable(status.iface);
	row.state = feed_state_text(status.state);
	if (!status.line)
		return row;
	row.offset_ns = static_cast<std::int64_t>(status.line->host_ns - status.line->nic_ns);
	row.drift_ppb = status.line->drift_ppm() * 1e3;
	row.error_ns = status.line->error_ns;
	row.age_s = static_cast<double>(now_ns - static_cast<std::int64_t>(status.line->host_ns)) / 1e9;
	return row;
}

ClockThread::ClockThread(Config::Clocks config, ClockFeeder::Tell tell, std::chrono::milliseconds retry)
	: config_(std::move(config)), tell_(std::move(tell)), retry_(retry),
	  stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); })
{
}

ClockThread::~ClockThread()
{
	const std::uint64_t one = 1;

	while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	if (thread_.joinable())
		thread_.join();
}

void ClockThread::run()
{
	std::string told;
	pollfd stop = {stop_.get(), POLLIN, 0};

	while (stop.revents == 0) {
		const auto fed = feed();

		if (fed)
			return;
		std::vector<ClockRow> rows;

		for (const std::string &dev : config_.devices)
			rows.push_back({printable(dev),
					std::string(feed_state_text(fed.error().code == EBUSY ? FeedState::busy : FeedState::failed)),
					{}, {}, {}, {}});
		set_rows(std::move(rows));
		if (std::exchange(told, fed.error().text()) != told)
			tell_({true, "clocks", "start", told + "; tried again and again"});
		(void)poll(&stop, 1, static_cast<int>(retry_.count()));
	}
}

// Until it is to stop; an Error if it cannot begin.
Result<void> ClockThread::feed()
{
	const auto system = real_system();
	const auto nics = real_nics();
	ASSIGN_OR_RETURN(auto host, real_clock_host());
	ClockFeeder feeder(*system, *nics, *host,
			   {config_.devices, static_cast<std::uint32_t>(config_.interval_ms), Keeper::service}, tell_);
	const auto note = [&] {
		std::vector<ClockRow> rows;

		for (const FeedStatus &s : feeder.status())
			rows.push_back(clock_row(s, host->now_ns()));
		set_rows(std::move(rows));
	};

	RETURN_IF_ERROR(feeder.start());
	note();

	std::array<pollfd, 2> wait = {{{feeder.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};

	while (wait[1].revents == 0) {
		if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR)
			break;
		if (wait[0].revents) {
			feeder.dispatch();
			note();
		}
	}
	feeder.stop();
	return {};
}

void ClockThread::set_rows(std::vector<ClockRow> rows)
{
	const std::scoped_lock lock(mutex_);

	rows_ = std::move(rows);
}

std::vector<ClockRow> ClockThread::rows() const
{
	const std::scoped_lock lock(mutex_);

	return rows_;
}

} // namespace swift
