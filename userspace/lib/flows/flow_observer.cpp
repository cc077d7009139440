// SPDX-License-Identifier: MIT
#include "flow_observer.h"

#include "clock_ns.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t alive_every_flows = 1 << 15;

} // namespace

SummaryOptions verdict_options(const Files &files)
{
	SummaryOptions o;

	if (auto text = read_sysctl(files, "net.ipv4.tcp_swift.endpoint_target_ns"))
		if (auto v = parse_int("", *text, 1, ns_per_s))
			o.endpoint_target_ns = static_cast<std::uint64_t>(*v);
	return o;
}

Result<FlowObserver> FlowObserver::open(FlowTableOptions options, Storages storages,
					std::int64_t storages_every_ns)
{
	auto ifaces = IfaceMap::open();

	if (!ifaces)
		return ifaces.error();
	return FlowObserver(std::move(options), std::move(storages), storages_every_ns, std::move(*ifaces));
}

Result<FlowLook> FlowObserver::look(const std::function<void()> &alive)
{
	const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	FlowLook out;

	out.ifaces_known = static_cast<bool>(ifaces_.refresh()); // names of before are better than none
	if (storages_ns_ == 0 || now_ns - storages_ns_ > storages_every_ns_) {
		storages_ = find_storages_();
		storages_ns_ = now_ns;
	}
	if (!diag_) {
		auto opened = DiagClient::open();

		if (!opened)
			return opened.error();
		diag_.emplace(std::move(*opened));
	}
	table_.begin(now_ns, ifaces_);
	std::size_t visited = 0;
	auto status = diag_->visit(
		states_connected,
		[&](const Flow &f) {
			if (++visited % alive_every_flows == 0 && alive)
				alive();
			table_.add(f);
		},
		storages_);

	if (!status) {
		// The rest of its answer may still be in the socket, and a variant's map be gone.
		diag_.reset();
		storages_ns_ = 0;
		return status.error();
	}
	out.status = std::move(*status);
	out.flows = table_.end();
	return out;
}

} // namespace swift
