// SPDX-License-Identifier: MIT
#include "iperf_run.h"

#include <algorithm>
#include <map>

#include "ab_json.h"

namespace swift {

namespace {

constexpr double bytes_most = 1e18;
constexpr double seconds_most = 1e6;

// Of a sender or a receiver.
double bps(const JsonNode &side)
{
	const double seconds = side["end"].number(1e-9, seconds_most);

	return side["bytes"].number(0, bytes_most) * 8 / std::max(seconds, 1e-9);
}

} // namespace

std::vector<double> IperfRun::rtt_ns() const
{
	std::vector<double> all;

	for (const IperfStream &s : streams)
		all.insert(all.end(), s.rtt_ns.begin(), s.rtt_ns.end());
	return all;
}

double IperfRun::loss_ratio() const
{
	const double segments = sent_bytes / std::max(mss_bytes, 1U);

	return segments > 0 ? std::min(1.0, static_cast<double>(retransmits) / segments) : 0;
}

Result<IperfRun> parse_iperf(std::string_view text)
{
	ASSIGN_OR_RETURN(const auto json, prefixed("iperf3's output is ", parse_json(text)));

	std::optional<Error> wrong;
	const JsonNode root(json, wrong);
	const JsonNode start = root["start"];
	const JsonNode end = root["end"];
	IperfRun run;

	if (const std::string error = root["error"].maybe_text(); !wrong && !error.empty())
		return Error{"iperf3: " + error};

	run.version = start["version"].text();
	run.mss_bytes = static_cast<std::uint32_t>(start["tcp_mss_default"].number(0, 1 << 20));
	run.reverse = start["test_start"]["reverse"].number(0, 1) != 0;
	run.cc = end["sender_tcp_congestion"].text();
	run.goodput_bps = bps(end["sum_received"]);
	run.sent_bytes = end["sum_sent"]["bytes"].number(0, bytes_most);
	run.retransmits = static_cast<std::uint64_t>(end["sum_sent"]["retransmits"].number(0, bytes_most));

	std::map<double, std::size_t> by_socket;

	for (const JsonNode &flow : start["connected"].required("a list").list()) {
		by_socket[flow["socket"].number(0, 1 << 24)] = run.streams.size();
		run.streams.push_back({static_cast<std::uint16_t>(flow["local_port"].number(1, 65535)), 0, {}});
	}

	const auto stream_of = [&](const JsonNode &node) -> IperfStream * {
		const auto found = by_socket.find(node["socket"].number(0, 1 << 24));

		if (found == by_socket.end()) {
			node["socket"].complain("a socket of start.connected");
			return nullptr;
		}
		return &run.streams[found->second];
	};
	std::size_t ended = 0;

	for (const JsonNode &stream : end["streams"].required("a list").list()) {
		if (IperfStream *s = stream_of(stream["receiver"]))
			s->received_bps = bps(stream["receiver"]);
		ended++;
	}
	if (run.streams.empty() || ended != run.streams.size())
		end["streams"].complain("one entry for each of start.connected");
	for (const JsonNode &interval : root["intervals"].required("a list").list())
		for (const JsonNode &stream : interval["streams"].required("a list").list()) {
			const JsonNode omitted = stream["omitted"];

			if (omitted.exists() && omitted.json().is_boolean() && omitted.json().get<bool>())
				continue;
			// Only senders have one.
			const double rtt_us = stream["rtt"].maybe_number().value_or(0);

			if (IperfStream *s = stream_of(stream); s && rtt_us > 0)
				s->rtt_ns.push_back(rtt_us * 1000);
		}
	if (wrong)
		return Error{"iperf3's JSON: " + wrong->text()};
	return run;
}

bool iperf_busy(std::string_view error)
{
	return error.find("server is busy") != std::string_view::npos;
}

bool iperf_not_listening(std::string_view error)
{
	// Seen of both between two tests; why a server resets then is not known.
	return error.find("Connection refused") != std::string_view::npos ||
	       error.find("Connection reset by peer") != std::string_view::npos;
}

} // namespace swift
