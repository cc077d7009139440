// SPDX-License-Identifier: MIT
#include "clocks.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>

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

Result<std::unique_ptr<ClockThread>> ClockThread::start(const Config::Clocks &config, ClockFeeder::Tell tell)
{
	Fd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

	if (!stop)
		return errno_error("cannot make an eventfd", errno);

	std::unique_ptr<ClockThread> t(new ClockThread(std::move(stop)));
	ClockThread *self = t.get();

	t->thread_ = std::thread([self, config, tell = std::move(tell)] { self->run(config, tell); });

	std::unique_lock lock(t->mutex_);

	t->begun_condition_.wait(lock, [&] { return t->begun_.has_value(); });
	const Result<void> how = *t->begun_;

	lock.unlock();
	if (!how)
		return how.error();
	return t;
}

ClockThread::~ClockThread()
{
	const std::uint64_t one = 1;

	while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	if (thread_.joinable())
		thread_.join();
}

void ClockThread::begun(Result<void> how)
{
	const std::scoped_lock lock(mutex_);

	begun_ = std::move(how);
	begun_condition_.notify_all();
}

void ClockThread::run(const Config::Clocks &config, const ClockFeeder::Tell &tell)
{
	const auto system = real_system();
	const auto nics = real_nics();
	auto host = real_clock_host();

	if (!host)
		return begun(host.error());
	ClockFeeder feeder(*system, *nics, **host,
			   {config.devices, static_cast<std::uint32_t>(config.interval_ms)}, tell);
	const auto note = [&] {
		std::vector<ClockRow> rows;

		for (const FeedStatus &s : feeder.status())
			rows.push_back(clock_row(s, (*host)->now_ns()));
		const std::scoped_lock lock(mutex_);

		rows_ = std::move(rows);
	};

	if (auto started = feeder.start(); !started)
		return begun(started.error());
	note();
	begun({});

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
}

std::vector<ClockRow> ClockThread::rows() const
{
	const std::scoped_lock lock(mutex_);

	return rows_;
}

} // namespace swift
