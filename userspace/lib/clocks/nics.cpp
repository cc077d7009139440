// SPDX-License-Identifier: MIT
// Nics on the real host: system calls, and nothing that decides.
#include "nics.h"

#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "fd.h"

namespace swift {

namespace {

class RealNics final : public Nics {
public:
	explicit RealNics(bool live) : live_(live) {}

	Result<Coalescing> coalescing(const std::string &dev) override
	{
		ethtool_coalesce request{};

		request.cmd = ETHTOOL_GCOALESCE;
		RETURN_IF_ERROR(nic_ioctl(dev, SIOCETHTOOL, &request));
		return Coalescing{request.rx_coalesce_usecs, request.use_adaptive_rx_coalesce != 0};
	}

	Result<NicTimestamps> timestamps(const std::string &dev) override
	{
		ethtool_ts_info info{};
		hwtstamp_config config{};

		info.cmd = ETHTOOL_GET_TS_INFO;
		RETURN_IF_ERROR(nic_ioctl(dev, SIOCETHTOOL, &info));

		NicTimestamps t;

		t.phc_index = info.phc_index;
		t.can_hw_rx_all = (info.so_timestamping & SOF_TIMESTAMPING_RX_HARDWARE) != 0 &&
				  (info.rx_filters & 1U << HWTSTAMP_FILTER_ALL) != 0;
		t.rx_filters = info.rx_filters;
		t.tx_types = info.tx_types;
		if (nic_ioctl(dev, SIOCGHWTSTAMP, &config)) {
			t.hw_rx_all_on = config.rx_filter == HWTSTAMP_FILTER_ALL;
			t.now = Stamping{config.tx_type, config.rx_filter};
		}
		return t;
	}

	Result<Stamping> set_stamping(const std::string &dev, const Stamping &wanted) override
	{
		hwtstamp_config config{};

		config.tx_type = wanted.tx_type;
		config.rx_filter = wanted.rx_filter;
		RETURN_IF_ERROR(nic_ioctl(dev, SIOCSHWTSTAMP, &config));
		return Stamping{config.tx_type, config.rx_filter};
	}

	Result<std::vector<NicClock>> nic_clocks() override
	{
		if (!live_)
			return not_live();
		auto client = ClockClient::open();

		return client ? client->all() : client.error();
	}

private:
	static Error not_live() { return Error{"only the live host can tell"}; }

	Result<void> nic_ioctl(const std::string &dev, unsigned long code, void *data) const
	{
		if (!live_)
			return not_live();

		const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
		ifreq request{};

		if (!fd)
			return errno_error("cannot open a socket", errno);
		if (dev.size() >= sizeof(request.ifr_name))
			return Error{"not an interface", dev};
		std::memcpy(request.ifr_name, dev.data(), dev.size());
		request.ifr_data = static_cast<char *>(data);
		if (ioctl(fd.get(), code, &request) < 0)
			return errno_error(dev, errno);
		return {};
	}

	bool live_;
};

} // namespace

std::unique_ptr<Nics> real_nics(const std::string &root)
{
	return std::make_unique<RealNics>(root.empty());
}

} // namespace swift
