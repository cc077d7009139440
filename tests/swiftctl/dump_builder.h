// SPDX-License-Identifier: MIT
// sock_diag messages made to measure, byte by byte as the kernel would send them.
#pragma once

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "uapi/tcp_swift.h"

namespace swift_test {

struct Record {
	std::uint32_t fabric_ns, endpoint_ns, target_ns, fcwnd_q16, ecwnd_q16;
};

class DumpBuilder {
public:
	std::uint32_t sequence = 7;
	std::uint16_t flags = NLM_F_MULTI;

	// A socket; attributes follow by attribute(), info(), cong(), record().
	DumpBuilder &socket(const char *local, std::uint16_t lport, const char *remote,
			    std::uint16_t rport, std::uint8_t state = 1)
	{
		inet_diag_msg msg{};
		const bool v6 = std::strchr(local, ':') != nullptr;

		msg.idiag_family = v6 ? AF_INET6 : AF_INET;
		msg.idiag_state = state;
		msg.idiag_inode = 4711;
		msg.idiag_uid = 1000;
		msg.id.idiag_sport = htons(lport);
		msg.id.idiag_dport = htons(rport);
		inet_pton(msg.idiag_family, local, msg.id.idiag_src);
		inet_pton(msg.idiag_family, remote, msg.id.idiag_dst);
		begin(SOCK_DIAG_BY_FAMILY);
		put(&msg, sizeof(msg));
		return *this;
	}

	DumpBuilder &attribute(unsigned type, const void *data, std::size_t size)
	{
		nlattr head{};

		head.nla_len = static_cast<std::uint16_t>(sizeof(head) + size);
		head.nla_type = static_cast<std::uint16_t>(type);
		put(&head, sizeof(head));
		put(data, size);
		pad();
		return *this;
	}

	DumpBuilder &cong(const std::string &name)
	{
		return attribute(INET_DIAG_CONG, name.c_str(), name.size() + 1);
	}

	DumpBuilder &info(std::uint32_t rtt_us, std::uint32_t min_rtt_us, std::uint32_t cwnd,
			  std::uint64_t rate, std::uint32_t retrans = 0)
	{
		tcp_info i{};

		i.tcpi_rtt = rtt_us;
		i.tcpi_rttvar = rtt_us / 4;
		i.tcpi_min_rtt = min_rtt_us;
		i.tcpi_snd_cwnd = cwnd;
		i.tcpi_snd_mss = 1448;
		i.tcpi_delivery_rate = rate;
		i.tcpi_total_retrans = retrans;
		return attribute(INET_DIAG_INFO, &i, sizeof(i));
	}

	DumpBuilder &record(const Record &r)
	{
		return attribute(TCP_SWIFT_DIAG_ATTR, &r, sizeof(r));
	}

	DumpBuilder &done(std::int32_t code = 0)
	{
		begin(NLMSG_DONE);
		put(&code, sizeof(code));
		return *this;
	}

	DumpBuilder &error(std::int32_t code)
	{
		nlmsgerr e{};

		e.error = code;
		begin(NLMSG_ERROR);
		put(&e, sizeof(e));
		return *this;
	}

	[[nodiscard]] std::span<const std::byte> span() const { return bytes_; }
	[[nodiscard]] const std::vector<std::byte> &bytes() const { return bytes_; }

private:
	void begin(std::uint16_t type)
	{
		nlmsghdr head{};

		pad();
		start_ = bytes_.size();
		head.nlmsg_type = type;
		head.nlmsg_flags = flags;
		head.nlmsg_seq = sequence;
		put(&head, sizeof(head));
	}

	void put(const void *data, std::size_t size)
	{
		const auto *p = static_cast<const std::byte *>(data);

		bytes_.insert(bytes_.end(), p, p + size);
		fix_length();
	}

	void pad()
	{
		while (bytes_.size() % 4)
			bytes_.push_back({});
		if (!bytes_.empty())
			fix_length();
	}

	void fix_length()
	{
		const auto length = static_cast<std::uint32_t>(bytes_.size() - start_);

		std::memcpy(&bytes_[start_], &length, sizeof(length));
	}

	std::vector<std::byte> bytes_;
	std::size_t start_ = 0;
};

// Six sockets: four swift (one IPv6, one without a record yet), one guarded, one cubic.
inline DumpBuilder six_flows()
{
	DumpBuilder b;

	b.socket("10.1.0.1", 40000, "10.1.0.9", 443)
		.info(120, 31, 12, 1180000000)
		.cong("swift")
		.record({62000 | 1, 18400 | 1, 81000, 12 << 16 | 0x5800, 40 << 16});
	b.socket("10.1.0.1", 40002, "10.1.0.10", 443)
		.info(480, 30, 1, 950000, 3)
		.cong("swift")
		.record({401200 | 2, 9000, 131000, 0x0326, 20 << 16}); // 0.0123 packets
	b.socket("10.1.0.1", 40004, "10.2.0.11", 8443)
		.info(310, 35, 2, 42000000)
		.cong("swift")
		.record({40000 | 2, 251000 | 2, 82000, 9 << 16, 2 << 16});
	b.socket("fd00::1", 40006, "fd00::2", 443).info(95, 40, 10, 999).cong("swift");
	b.socket("10.1.0.1", 40008, "192.0.2.80", 443).info(30000, 29000, 44, 12000000).cong("swift-reno");
	b.socket("10.1.0.1", 22, "10.1.0.77", 50000).info(200, 100, 10, 5000).cong("cubic");
	b.done();
	return b;
}

} // namespace swift_test
