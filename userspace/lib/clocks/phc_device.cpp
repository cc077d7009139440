// SPDX-License-Identifier: MIT
// /dev/ptpN: the ioctls, and nothing that decides.
#include <fcntl.h>
#include <linux/ptp_clock.h>
#include <sys/ioctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "clock_ns.h"
#include "fd.h"
#include "phc.h"

namespace swift {

namespace {


// Beyond what 64 bits of ns hold: an end of the range.
std::int64_t ns_of(const ptp_clock_time &t)
{
	const std::int64_t s = std::clamp<std::int64_t>(t.sec, -9000000000, 9000000000);

	return s * ns_per_s + t.nsec;
}

class PtpDevice final : public PhcDevice {
public:
	explicit PtpDevice(Fd fd) : fd_(std::move(fd)) {}

	Result<std::vector<PhcSample>> samples(PhcMethod method, unsigned count) override
	{
		count = std::clamp(count, 1U, static_cast<unsigned>(PTP_MAX_SAMPLES));
		switch (method) {
		case PhcMethod::precise:
			return precise();
		case PhcMethod::extended_monotonic:
			return extended(count, CLOCK_MONOTONIC);
		case PhcMethod::extended:
			return extended(count, CLOCK_REALTIME);
		case PhcMethod::basic:
			break;
		}
		return basic(count);
	}

	HostClocks host_clocks() override
	{
		HostClocks c;

		c.mono_before_ns = clock_ns(CLOCK_MONOTONIC);
		c.real_ns = clock_ns(CLOCK_REALTIME);
		c.mono_after_ns = clock_ns(CLOCK_MONOTONIC);
		return c;
	}

private:
	Result<std::vector<PhcSample>> precise()
	{
		ptp_sys_offset_precise o{};

		if (ioctl(fd_.get(), PTP_SYS_OFFSET_PRECISE, &o) < 0)
			return errno_error("cannot read the NIC's clock", errno);

		const std::int64_t host = ns_of(o.sys_realtime);

		return std::vector<PhcSample>{{host, ns_of(o.device), host}};
	}

	Result<std::vector<PhcSample>> extended(unsigned count, clockid_t clock)
	{
		ptp_sys_offset_extended o{};
		std::vector<PhcSample> out;

		o.n_samples = count;
		// From 6.12 on the first reserved word is the host's clock; before, it must be 0.
		o.rsv[0] = static_cast<unsigned>(clock);
		if (ioctl(fd_.get(), PTP_SYS_OFFSET_EXTENDED, &o) < 0)
			return errno_error("cannot read the NIC's clock", errno);
		for (unsigned i = 0; i < count; i++)
			out.push_back({ns_of(o.ts[i][0]), ns_of(o.ts[i][1]), ns_of(o.ts[i][2])});
		return out;
	}

	Result<std::vector<PhcSample>> basic(unsigned count)
	{
		ptp_sys_offset o{};
		std::vector<PhcSample> out;

		o.n_samples = count;
		if (ioctl(fd_.get(), PTP_SYS_OFFSET, &o) < 0)
			return errno_error("cannot read the NIC's clock", errno);
		for (unsigned i = 0; i < count; i++)
			out.push_back({ns_of(o.ts[2 * i]), ns_of(o.ts[2 * i + 1]), ns_of(o.ts[2 * i + 2])});
		return out;
	}

	Fd fd_;
};

} // namespace

Result<std::unique_ptr<PhcDevice>> open_phc(int index)
{
	const std::string path = "/dev/ptp" + std::to_string(index);
	Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

	if (!fd)
		return errno_error("cannot open " + path, errno);
	return std::unique_ptr<PhcDevice>(std::make_unique<PtpDevice>(std::move(fd)));
}

} // namespace swift
