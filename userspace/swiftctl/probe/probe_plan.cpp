// SPDX-License-Identifier: MIT
// The options of `swiftctl probe`, checked. Pure.
#include <fmt/format.h>

#include "clock_ns.h"
#include "probe.h"
#include "probe_server.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t max_targets = 4096;
constexpr double max_rate_pps = 100000; // of all probes; a responder answers no more

Error only_with(std::string_view option, std::string_view other)
{
	return Error{fmt::format("{} goes with {} only", option, other)};
}

// Which options of the prober were given to a responder.
std::string_view prober_option(const ProbeOptions &o)
{
	return !o.targets.empty()	 ? "a target" :
	       !o.targets_file.empty() ? "--targets" :
	       !o.count.empty()	       ? "--count" :
	       !o.interval_ms.empty()  ? "--interval" :
	       !o.timeout_ms.empty()   ? "--timeout" :
	       !o.size.empty()	       ? "--size" :
	       !o.dscp.empty()	       ? "--dscp" :
	       !o.watch.empty()	       ? "--watch" :
	       o.json		       ? "--json" :
	       o.wide		       ? "--wide" :
					 "";
}

Result<ProbePlan> responder_plan(const ProbeOptions &o, ProbePlan plan)
{
	std::uint16_t port = probe_port;

	if (const auto other = prober_option(o); !other.empty())
		return Error{fmt::format("--respond and {} exclude each other", other)};
	RETURN_IF_ERROR(take_int(port, "--port", o.port, 1, 65535));
	if (o.bind.empty()) {
		plan.bind = any_address(port);
		return plan;
	}
	// With a scope, an address is for the resolver; names are not meant here.
	auto address = Address::parse(o.bind.substr(0, o.bind.find('%')));

	if (!address)
		return Error{"--bind", o.bind, "an IPv4 or IPv6 address of this host"};

	ASSIGN_OR_RETURN(auto bound, resolve_probe(address->v6 ? "[" + o.bind + "]" : o.bind, port));
	plan.bind = {bound};
	return plan;
}

} // namespace

Result<std::vector<std::string>> parse_targets(const std::string &name, const std::string &content)
{
	std::vector<std::string> targets;
	std::size_t number = 0;

	for (const std::string &line : split(content, '\n')) {
		const auto parts = words(std::string_view(line).substr(0, line.find('#')));

		number++;
		if (parts.empty())
			continue;
		if (parts.size() > 1)
			return Error{fmt::format("{}:{}: one target a line", name, number), parts[1]};
		for (const char c : parts[0])
			if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 127)
				return Error{fmt::format("{}:{}: not a target", name, number), {},
					     "HOST, HOST:PORT, [ADDRESS]:PORT"};
		RETURN_IF_ERROR(prefixed(fmt::format("{}:{}: ", name, number), probe_port_of(parts[0])));
		targets.push_back(parts[0]);
	}
	return targets;
}

Result<ProbePlan> ProbePlan::from(const ProbeOptions &o, const std::string &file)
{
	ProbePlan p;

	p.stamp = o.stamp;
	p.json = o.json;
	p.wide = o.wide;
	p.iface = o.iface;
	p.key_file = o.key_file;
	if (o.stamp && o.iface.empty())
		return only_with("--stamp", "--iface");
	if (o.respond)
		return responder_plan(o, p);
	if (!o.bind.empty())
		return only_with("--bind", "--respond");
	if (!o.port.empty())
		return only_with("--port", "--respond (a target's is HOST:PORT)");

	p.targets = o.targets;
	for (const std::string &t : o.targets)
		RETURN_IF_ERROR(probe_port_of(t));
	if (!o.targets_file.empty()) {
		ASSIGN_OR_RETURN(auto more, parse_targets(o.targets_file, file));

		p.targets.insert(p.targets.end(), more.begin(), more.end());
	}
	if (p.targets.empty())
		return Error{o.targets_file.empty() ? "no target given" : "no target in " + o.targets_file};
	if (p.targets.size() > max_targets)
		return Error{"too many targets", std::to_string(p.targets.size()),
			     "at most " + std::to_string(max_targets)};
	RETURN_IF_ERROR(take_watch(p.watch_s, o.watch));
	if (!o.watch.empty())
		p.count = 0;
	RETURN_IF_ERROR(take_int(p.count, "--count", o.count, 1, 1000000000));
	RETURN_IF_ERROR(take_decimal(p.interval_ns, "--interval", o.interval_ms, 0.01, 60000, ns_per_ms));
	RETURN_IF_ERROR(take_decimal(p.timeout_ns, "--timeout", o.timeout_ms, 1, 2000, ns_per_ms));
	// What is signed is longer.
	p.size_bytes = o.key_file.empty() ? probe_min_bytes : probe_signed_min_bytes;
	RETURN_IF_ERROR(take_int(p.size_bytes, "--size", o.size, static_cast<std::int64_t>(p.size_bytes), probe_max_bytes));
	RETURN_IF_ERROR(take_int(p.dscp, "--dscp", o.dscp, 0, 63));

	const double least_ms = static_cast<double>(p.targets.size()) * 1e3 / max_rate_pps;

	if (static_cast<double>(p.interval_ns) / 1e6 < least_ms)
		return Error{fmt::format("--interval for {} targets", p.targets.size()),
			     o.interval_ms.empty() ? "10" : o.interval_ms,
			     fmt::format("at least {:.2f}", least_ms)};
	return p;
}

} // namespace swift
