// SPDX-License-Identifier: MIT
// libFuzzer: any bytes as a probe's packet, to the gate, the responder and the prober; what they
// make of it stays in its bounds, and a packet that parses is written as it was. And as the text of
// files: peers, and keys.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "probe_exchange.h"
#include "probe_gate.h"
#include "probe_packet.h"
#include "probe_peers.h"
#include "probe_responder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	using namespace swift;
	static const ProbeKeys keys = *ProbeKeys::parse("k", "0123456789abcdef\nfedcba9876543210\n");
	const std::string_view text(reinterpret_cast<const char *>(data), size);

	if (const auto peers = parse_peers("f", text))
		for (const ProbedPeer &peer : *peers)
			if (peer.name.empty() || !is_rack(peer.rack))
				std::abort();
	if (const auto more = ProbeKeys::parse("f", text); more && more->empty())
		std::abort();

	ProbeGate open(ProbeKeys(), {}, 1, 0), closed(keys, {}, 1, 0);
	const auto passed = open.check({std::as_bytes(std::span(data, size)), false, {}}, 0, 0);

	// Nobody guesses a signature.
	if (std::holds_alternative<ProbeGate::Passed>(closed.check({std::as_bytes(std::span(data, size)), false, {}}, 0, 0)))
		std::abort();
	if (size >= probe_signed_min_bytes && std::holds_alternative<ProbeGate::Passed>(passed)) {
		std::vector<std::byte> own(size);

		std::copy_n(std::as_bytes(std::span(data, size)).begin(), size, own.begin());
		keys.sign(own, {1, 5});
		if (!std::holds_alternative<ProbeGate::Passed>(closed.check({own, false, {}}, 0, 0)) ||
		    std::get<Refusal>(closed.check({own, false, {}}, 0, 0)) != Refusal::replayed)
			std::abort();
	}

	const auto parsed = parse_probe(std::as_bytes(std::span(data, size)));

	if (const auto *defect = std::get_if<ProbeDefect>(&parsed)) {
		if (defect_text(*defect).empty())
			std::abort();
		return 0;
	}

	const auto &packet = std::get<ProbePacket>(parsed);

	if (size < probe_min_bytes || packet.record_count > probe_records)
		std::abort();

	std::vector<std::byte> bytes(size);

	write_probe(packet, bytes);
	if (std::get<ProbePacket>(parse_probe(bytes)) != packet)
		std::abort();

	ProbeMemory memory(1);
	const ProbePeer peer = {{}, packet.cookie, packet.target};
	const RxStamps rx = {0, 1000, 2000, 1};

	for (int i = 0; i < 6; i++) {
		const ProbePacket reply = memory.answer(peer, packet, rx);

		memory.tx_stamp(peer, packet.seq, TxPoint::driver, 1500);
		if (reply.record_count > probe_records || reply.seq != packet.seq)
			std::abort();
	}

	ProbeTrack track(1000, 0);
	std::size_t settled = 0;

	for (int i = 0; i < 8; i++)
		track.sent(i, 100);
	(void)track.reply(packet, rx);
	track.tx_stamp(packet.seq, TxPoint::driver, 200);
	track.settle(2000, [&](const Exchange &e) {
		ProbeStats stats;

		stats.add(e, measure(e, nullptr));
		settled++;
	});
	if (settled != 8 || !track.idle())
		std::abort();
	return 0;
}
