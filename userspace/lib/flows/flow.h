// SPDX-License-Identifier: MIT
// What user space knows of one TCP flow: its ends, the numbers of tcp_info that we
// show, and the module's own record, decoded. Plain data; who fills it is diag.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "address.h"
#include "owner.h"
#include "socket_processes.h"

namespace swift {

// The congestion control, and the ops that a flow on too long a path runs instead.
inline constexpr std::string_view cc_name = "swift";
inline constexpr std::string_view guarded_cc_name = "swift-reno";

enum class Stamp : std::uint8_t { none, software, hardware };
enum class Limit : std::uint8_t { fabric, host, both };
// Who holds a flow back: verdict.h. none: nothing measured it. mixed: fabric and host alike. credit: its
// receiver lends no more; own_link: it lends less because this host's own link is congested.
enum class Bound : std::uint8_t { none, fabric, host, mixed, application, receiver, send_buffer, credit, own_link };
inline constexpr std::size_t bounds = 9;
// What its receiver's credit does to a flow: enum tcp_swift_credit.
enum class Credit : std::uint8_t { none, enough, waits, congested };

// struct tcp_swift_info, with the stamp sources and the credit taken out of the delays.
struct SwiftRecord {
	std::uint32_t fabric_ns = 0;
	std::uint32_t endpoint_ns = 0;
	std::uint32_t target_ns = 0;
	std::uint32_t fcwnd_q16 = 0;
	std::uint32_t ecwnd_q16 = 0;
	Stamp local_stamp = Stamp::none;
	Stamp echo_stamp = Stamp::none;
	Credit credit = Credit::none;

	[[nodiscard]] double fcwnd_pkts() const { return fcwnd_q16 / 65536.0; }
	[[nodiscard]] double ecwnd_pkts() const { return ecwnd_q16 / 65536.0; }
	[[nodiscard]] double window_pkts() const
	{
		return (fcwnd_q16 < ecwnd_q16 ? fcwnd_q16 : ecwnd_q16) / 65536.0;
	}
	[[nodiscard]] Limit limit() const
	{
		return fcwnd_q16 < ecwnd_q16 ? Limit::fabric :
		       ecwnd_q16 < fcwnd_q16 ? Limit::host :
					       Limit::both;
	}
};

// How long a sender had data, and of that who else than the window held it: sums since the flow began.
struct SenderTimes {
	std::uint64_t busy_us = 0; // the rest in it
	std::uint64_t rwnd_limited_us = 0; // the peer's window was full
	std::uint64_t sndbuf_limited_us = 0; // the application waited for room in the send buffer
};

// Of struct tcp_info.
struct TcpCounters {
	std::uint32_t srtt_us = 0;
	std::uint32_t rttvar_us = 0;
	std::uint32_t min_rtt_us = 0; // 0xffffffff: none measured
	std::uint32_t snd_cwnd_pkts = 0;
	std::uint32_t snd_mss_bytes = 0;
	std::uint32_t retrans_total = 0;
	std::uint64_t delivery_rate_Bps = 0;
	std::uint64_t pacing_rate_Bps = 0;
	std::uint64_t bytes_acked = 0;
	std::uint32_t notsent_bytes = 0; // of what the application has written
	std::uint32_t unacked_pkts = 0;
	std::uint32_t segments_sent = 0; // with data, again too; modulo 2^32
	bool app_limited = false; // the newest rate is the application's
	SenderTimes times;

	[[nodiscard]] bool has_min_rtt() const { return min_rtt_us != 0 && min_rtt_us != 0xffffffffU; }
};

// Whom a flow belongs to, as far as somebody has asked.
struct Whose {
	std::string netns; // network namespace
	Owner owner;
	std::optional<Process> process;
};

struct Flow {
	Endpoint local;
	Endpoint remote;
	std::uint8_t state = 0; // TCP_ESTABLISHED = 1 ...
	std::uint32_t inode = 0;
	std::uint32_t uid = 0;
	std::uint64_t cookie = 0; // of the socket; no other has it until the next boot
	std::uint64_t cgroup_id = 0; // of who made the socket; 0: the kernel did not say (before 5.9)
	std::string cc; // "" if the kernel did not say
	std::optional<TcpCounters> tcp;
	std::optional<SwiftRecord> swift;
	bool from_bpf = false; // the record is a BPF variant's, out of the socket's storage
	Bound held = Bound::none; // as far as somebody has asked held_by()
	std::shared_ptr<const Whose> whose;

	[[nodiscard]] bool is_swift() const { return cc == cc_name; }
	[[nodiscard]] bool is_guarded() const { return cc == guarded_cc_name; }
	[[nodiscard]] bool runs_swift() const { return is_swift() || from_bpf; }
	// A BPF variant's, by its name: those of ours begin like this.
	[[nodiscard]] bool is_bpf() const { return cc.starts_with("bpf_"); }
	[[nodiscard]] bool uses_module() const { return is_swift() || is_guarded(); }
};

[[nodiscard]] std::string_view stamp_text(Stamp s); // none, sw, hw
[[nodiscard]] std::string_view limit_text(Limit l); // fabric, host, both
[[nodiscard]] std::string_view credit_text(Credit c); // none, enough, waits, congested
[[nodiscard]] std::string_view bound_text(Bound b); // none, fabric, ..., own_link
// Who can be asked for: all but none.
[[nodiscard]] std::optional<Bound> parse_bound(std::string_view text);
inline constexpr std::string_view bounds_allowed =
	"fabric, host, mixed, application, receiver, send_buffer, credit, own_link";
[[nodiscard]] std::string_view tcp_state_text(std::uint8_t state); // as ss prints it

} // namespace swift
