// SPDX-License-Identifier: MIT
// A NIC's hardware stamping: what it can, what is set, and the names for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace swift {

// struct hwtstamp_config's
struct Stamping {
	int tx_type = 0; // HWTSTAMP_TX_OFF
	int rx_filter = 0; // HWTSTAMP_FILTER_NONE

	bool operator==(const Stamping &) const = default;
};

struct NicTimestamps {
	bool can_hw_rx_all = false; // SOF_TIMESTAMPING_RX_HARDWARE with filter ALL
	bool hw_rx_all_on = false; // the filter is set now
	int phc_index = -1; // /dev/ptpN
	std::uint32_t rx_filters = 0; // bit HWTSTAMP_FILTER_x: it can
	std::uint32_t tx_types = 0; // bit HWTSTAMP_TX_x
	std::optional<Stamping> now = {}; // none: the driver does not tell
};

// As ethtool -T names them: "none", "all", "ptpv2-event"; "off", "on".
[[nodiscard]] std::string rx_filter_text(int filter);
[[nodiscard]] std::string tx_type_text(int type);
// "rx all, tx on"
[[nodiscard]] std::string stamping_text(const Stamping &s);
// "none, ptpv2-event"
[[nodiscard]] std::string rx_filters_text(std::uint32_t filters);

} // namespace swift
