// SPDX-License-Identifier: MIT
#include "stamping.h"

#include <array>
#include <string_view>

namespace swift {

namespace {

// In the order of linux/net_tstamp.h.
constexpr std::array<std::string_view, 16> filters = {
	"none",		      "all",		 "some",	   "ptpv1-l4-event",
	"ptpv1-l4-sync",      "ptpv1-l4-delay-req", "ptpv2-l4-event", "ptpv2-l4-sync",
	"ptpv2-l4-delay-req", "ptpv2-l2-event",	 "ptpv2-l2-sync",  "ptpv2-l2-delay-req",
	"ptpv2-event",	      "ptpv2-sync",	 "ptpv2-delay-req", "ntp-all",
};
constexpr std::array<std::string_view, 4> types = {"off", "on", "onestep-sync", "onestep-p2p"};

template <std::size_t N> std::string name(const std::array<std::string_view, N> &names, int i)
{
	if (i < 0 || static_cast<std::size_t>(i) >= N)
		return std::to_string(i);
	return std::string(names[static_cast<std::size_t>(i)]);
}

} // namespace

std::string rx_filter_text(int filter)
{
	return name(filters, filter);
}

std::string tx_type_text(int type)
{
	return name(types, type);
}

std::string stamping_text(const Stamping &s)
{
	return "rx " + rx_filter_text(s.rx_filter) + ", tx " + tx_type_text(s.tx_type);
}

std::string rx_filters_text(std::uint32_t bits)
{
	std::string text;

	for (int i = 0; i < 32; i++)
		if (bits & 1U << i)
			text += (text.empty() ? "" : ", ") + rx_filter_text(i);
	return text.empty() ? "none at all" : text;
}

} // namespace swift
