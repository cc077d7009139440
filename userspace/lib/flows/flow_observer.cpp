// SPDX-License-Identifier: MIT
#include "flow_observer.h"

#include <cerrno>

#include "clock_ns.h"
#include "netns.h"
#include "netns_visit.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t alive_every_flows = 1 << 15;
constexpr std::size_t most_one_by_one = 1000; // flows; of more, a list is cheaper
constexpr std::uint8_t state_established = 1;
constexpr std::int64_t ifaces_every_ns = 30 * ns_per_s; // of other namespaces

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
	ASSIGN_OR_RETURN(auto ifaces, IfaceMap::open());

	return FlowObserver(std::move(options), std::move(storages), storages_every_ns, std::move(ifaces));
}

// In that namespace.
Result<DiagStatus> FlowObserver::look_inside(const Netns &netns, int fd, std::int64_t now_ns, const FlowVisitor &add)
{
	const auto cookie = netns_cookie();
	Place &p = places_[netns.inode];

	p.seen = true;
	// The number of one that has gone may have another one by now.
	if (p.ifaces_ns == 0 || !cookie || *cookie != p.cookie) {
		p.cookie = cookie ? *cookie : 0;
		p.ifaces_ns = 0;
		if (new_netns_)
			new_netns_(netns, fd);
	}
	if (p.ifaces_ns == 0 || now_ns - p.ifaces_ns > ifaces_every_ns) {
		if (auto ifaces = IfaceMap::read())
			p.ifaces = std::move(*ifaces);
		p.ifaces_ns = now_ns;
	}
	table_.enter(netns.name, p.ifaces);
	// What the getter shows is shown again if it was not all: a flow counts once, as it was first.
	if (DiagStatus status; look_one_by_one(p, add, status))
		return status;
	// Anew each time: a socket of ours would keep the namespace alive.
	auto client = DiagClient::open();

	p.flows.clear();
	p.one_by_one = true;
	if (!client)
		return client.error();
	auto status = client->visit(
		states_connected,
		[&](const Flow &f) {
			add(f);
			if (p.flows.size() <= most_one_by_one)
				p.flows.push_back({f.local, f.remote, f.cookie});
			p.one_by_one &= f.state == state_established && !f.is_bpf();
		},
		storages_);

	p.one_by_one &= status && !status->interrupted && p.flows.size() <= most_one_by_one;
	return status;
}

// There is nobody new if all that were there are, still established, and are as many as the kernel counts.
bool FlowObserver::look_one_by_one(Place &place, const FlowVisitor &add, DiagStatus &status)
{
	if (!place.one_by_one || established_here() != place.flows.size())
		return false;
	if (place.flows.empty())
		return true;
	auto getter = DiagGetter::open();

	if (!getter)
		return false;
	const auto all = getter->get(
		place.flows,
		[&](const Flow &f) {
			place.one_by_one &= f.state == state_established && !f.is_bpf();
			if ((states_connected >> f.state & 1) != 0)
				add(f);
		},
		status);

	return all && *all && place.one_by_one;
}

void FlowObserver::look_at_others(const std::vector<Netns> &others, std::int64_t now_ns, const FlowVisitor &add, FlowLook &out)
{
	DiagStatus &sum = out.status;

	for (auto &[inode, place] : places_)
		place.seen = false;
	const NetnsVisit visit = visit_netns(others, [&](const Netns &n, int fd) {
		const auto status = look_inside(n, fd, now_ns, add);

		if (!status || status->interrupted)
			table_.not_whole();
		if (!status) {
			if (!out.netns_trouble)
				out.netns_trouble = Error{"network namespace " + n.name + ": " + status.error().text()};
			return;
		}
		out.netns++;
		sum.interrupted |= status->interrupted;
		sum.bad_records += status->bad_records;
		sum.malformed += status->malformed;
	});

	for (const std::uint32_t inode : visit.gone)
		netns_.ask_again(inode);
	out.others_cpu_s = visit.cpu_s;
	std::erase_if(places_, [](const auto &p) { return !p.second.seen; });
	out.silent_processes = netns_.silent_processes();
	if (visit.trouble)
		out.netns_trouble = visit.trouble->code == EPERM || visit.trouble->code == EACCES ?
					    Error{visit.trouble->text() + ": it takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE for "
									  "those without a name",
						  {}, {}, visit.trouble->code} :
					    *visit.trouble;
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
		ASSIGN_OR_RETURN(auto opened, DiagClient::open());

		diag_.emplace(std::move(opened));
	}
	const std::vector<Netns> *others = nullptr;

	if (scope_ == NetnsScope::all)
		others = &netns_.scan();
	else if (netns_.own_name().empty())
		netns_.scan_own();
	table_.name_owners_by([this, now_ns](std::uint64_t id) { return owners_->find(id, now_ns); });
	table_.begin(now_ns, ifaces_, netns_.own_name());
	std::size_t visited = 0;
	const FlowVisitor add = [&](const Flow &f) {
		if (++visited % alive_every_flows == 0 && alive)
			alive();
		table_.add(f);
	};
	auto status = diag_->visit(states_connected, add, storages_);

	if (!status) {
		// The rest of its answer may still be in the socket, and a variant's map be gone.
		diag_.reset();
		storages_ns_ = 0;
		return status.error();
	}
	out.status = std::move(*status);
	if (out.status.interrupted)
		table_.not_whole();
	if (others)
		look_at_others(*others, now_ns, add, out);
	out.flows = table_.end();
	return out;
}

} // namespace swift
