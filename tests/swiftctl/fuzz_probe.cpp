// SPDX-License-Identifier: MIT
// libFuzzer: any bytes as a probe's packet, to the responder and to the prober; what they
// make of it stays in its bounds, and a packet that parses is written as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "probe_exchange.h"
#include "probe_packet.h"
#include "probe_responder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	using namespace swift;
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
