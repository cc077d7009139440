// SPDX-License-Identifier: MIT
// Bytes of sock_diag messages to flows. Every read is bounded and by copy: the bytes may
// be cut anywhere, unaligned, or hostile. No system call belongs here.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include <algorithm>
#include <cstring>

#include "diag.h"
#include "netlink_bytes.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

std::uint16_t from_network(std::uint16_t v)
{
	const auto b = reinterpret_cast<const unsigned char *>(&v);

	return static_cast<std::uint16_t>(b[0] << 8 | b[1]);
}

Stamp source_of(std::uint32_t delay)
{
	switch (delay & TCP_SWIFT_SOURCE_MASK) {
	case TCP_SWIFT_SOURCE_SOFTWARE:
		return Stamp::software;
	case TCP_SWIFT_SOURCE_HARDWARE:
		return Stamp::hardware;
	default:
		return Stamp::none;
	}
}

static_assert(static_cast<int>(Credit::none) == TCP_SWIFT_CREDIT_NONE &&
	      static_cast<int>(Credit::enough) == TCP_SWIFT_CREDIT_ENOUGH &&
	      static_cast<int>(Credit::waits) == TCP_SWIFT_CREDIT_WAITS &&
	      static_cast<int>(Credit::congested) == TCP_SWIFT_CREDIT_CONGESTED);

SwiftRecord decode(const tcp_swift_info &raw)
{
	SwiftRecord r;

	r.fabric_ns = raw.fabric_ns & ~TCP_SWIFT_SOURCE_MASK;
	r.endpoint_ns = raw.endpoint_ns & ~TCP_SWIFT_SOURCE_MASK;
	r.target_ns = raw.target_ns & ~TCP_SWIFT_CREDIT_MASK;
	r.fcwnd_q16 = raw.fcwnd_q16;
	r.ecwnd_q16 = raw.ecwnd_q16;
	r.local_stamp = source_of(raw.fabric_ns);
	r.echo_stamp = source_of(raw.endpoint_ns);
	r.credit = static_cast<Credit>(raw.target_ns & TCP_SWIFT_CREDIT_MASK);
	return r;
}

TcpCounters decode(const tcp_info &raw)
{
	TcpCounters c;

	c.srtt_us = raw.tcpi_rtt;
	c.rttvar_us = raw.tcpi_rttvar;
	c.min_rtt_us = raw.tcpi_min_rtt;
	c.snd_cwnd_pkts = raw.tcpi_snd_cwnd;
	c.snd_mss_bytes = raw.tcpi_snd_mss;
	c.retrans_total = raw.tcpi_total_retrans;
	c.delivery_rate_Bps = raw.tcpi_delivery_rate;
	c.pacing_rate_Bps = raw.tcpi_pacing_rate;
	c.bytes_acked = raw.tcpi_bytes_acked;
	c.notsent_bytes = raw.tcpi_notsent_bytes;
	c.unacked_pkts = raw.tcpi_unacked;
	c.segments_sent = raw.tcpi_data_segs_out;
	c.app_limited = raw.tcpi_delivery_rate_app_limited;
	c.times = {raw.tcpi_busy_time, raw.tcpi_rwnd_limited, raw.tcpi_sndbuf_limited};
	return c;
}

// A congestion control's name goes to terminals: letters, digits and the like only.
std::string clean_name(Bytes b)
{
	std::string s;

	for (const std::byte byte : b.first(std::min<std::size_t>(b.size(), 15))) {
		const auto c = static_cast<unsigned char>(byte);

		if (c == 0)
			break;
		s += c > 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
	}
	return s;
}

Endpoint endpoint(std::uint8_t family, const void *address, std::uint16_t port)
{
	Endpoint e;

	e.address.v6 = family == family_v6;
	std::memcpy(e.address.bytes.data(), address, e.address.v6 ? 16 : 4);
	e.port = from_network(port);
	return e;
}

// The values of the maps that were asked for; a flow has one at most that is not all zero.
void parse_storages(Bytes b, Flow &flow, DiagStatus &status)
{
	status.malformed += !for_attributes(b, [&](int, Bytes storage) {
		status.malformed += !for_attributes(storage, [&](int type, Bytes value) {
			if (type != SK_DIAG_BPF_STORAGE_MAP_VALUE)
				return;
			const auto raw = read_whole<tcp_swift_info>(value);

			if (!raw) {
				status.bad_records++;
			} else if (raw->target_ns != 0 || raw->fcwnd_q16 != 0) {
				flow.swift = decode(*raw);
				flow.from_bpf = true;
			}
		});
	});
}

void parse_attributes(Bytes b, Flow &flow, DiagStatus &status)
{
	status.malformed += !for_attributes(b, [&](int type, Bytes payload) {
		switch (type) {
		case INET_DIAG_INFO:
			flow.tcp = decode(read_some<tcp_info>(payload));
			break;
		case INET_DIAG_CONG:
			flow.cc = clean_name(payload);
			break;
		case TCP_SWIFT_DIAG_ATTR:
			if (payload.size() == sizeof(tcp_swift_info))
				flow.swift = decode(*read_whole<tcp_swift_info>(payload));
			else
				status.bad_records++;
			break;
		case INET_DIAG_CGROUP_ID:
			flow.cgroup_id = read_whole<std::uint64_t>(payload).value_or(0);
			break;
		case INET_DIAG_SK_BPF_STORAGES:
			parse_storages(payload, flow, status);
			break;
		default: // not ours
			break;
		}
	});
	// What runs the module has the module's record, whatever else is on the socket.
	flow.from_bpf = flow.from_bpf && !flow.uses_module();
}

bool parse_socket(Bytes b, const FlowVisitor &visit, DiagStatus &status)
{
	const auto msg = read_whole<inet_diag_msg>(b);

	if (!msg || (msg->idiag_family != family_v4 && msg->idiag_family != family_v6))
		return false;

	Flow flow;

	flow.local = endpoint(msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport);
	flow.remote = endpoint(msg->idiag_family, msg->id.idiag_dst, msg->id.idiag_dport);
	flow.state = msg->idiag_state;
	flow.inode = msg->idiag_inode;
	flow.uid = msg->idiag_uid;
	flow.cookie = std::uint64_t{msg->id.idiag_cookie[1]} << 32 | msg->id.idiag_cookie[0];
	parse_attributes(skip(b, align4(sizeof(inet_diag_msg))), flow, status);
	visit(flow);
	return true;
}

} // namespace

DiagStatus visit_diag(Bytes bytes, const FlowVisitor &visit, std::uint32_t sequence)
{
	DiagStatus seen;
	DiagStatus status;

	static_cast<NetlinkStatus &>(status) =
		for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
			// The old kind has the same content.
			return (head.nlmsg_type != SOCK_DIAG_BY_FAMILY && head.nlmsg_type != TCPDIAG_GETSOCK) ||
			       parse_socket(payload, visit, seen);
		});
	status.bad_records = seen.bad_records;
	status.malformed += seen.malformed;
	return status;
}

DiagStatus parse_diag(Bytes bytes, std::vector<Flow> &flows, std::uint32_t sequence)
{
	return visit_diag(bytes, [&](const Flow &flow) { flows.push_back(flow); }, sequence);
}

} // namespace swift
