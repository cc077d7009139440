// SPDX-License-Identifier: MIT
#include "collector.h"

#include <net/if.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <array>
#include <charconv>

#include "bpf_host.h"
#include "clock_ns.h"
#include "netns.h"
#include "printable.h"
#include "telemetry_source.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::int64_t storages_every_ns = 5 * ns_per_s;
constexpr std::size_t most_counters = 256;

NetnsScope scope_of(const Config::Collect &config)
{
	return config.netns == "own" ? NetnsScope::own : NetnsScope::all;
}

double seconds(const timeval &t)
{
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

std::string dev_name(std::uint32_t ifindex)
{
	std::array<char, IF_NAMESIZE> name{};

	return if_indextoname(ifindex, name.data()) ? printable(name.data()) : std::to_string(ifindex);
}

} // namespace

std::map<std::string, std::int64_t> parse_counters(std::string_view text)
{
	std::map<std::string, std::int64_t> out;

	for (const std::string &line : split(text, '\n')) {
		const auto parts_of = words(line);

		if (parts_of.size() != 2 || out.size() >= most_counters)
			continue;
		// A gauge below zero comes as what it is modulo 2^64.
		std::uint64_t v = 0;
		const std::string &number = parts_of[1];
		const auto r = std::from_chars(number.data(), number.data() + number.size(), v);

		if (r.ec == std::errc() && r.ptr == number.data() + number.size())
			out[parts_of[0]] = static_cast<std::int64_t>(v);
	}
	return out;
}

FlowTableOptions table_options(const Config::Collect &config)
{
	FlowTableOptions o;

	o.ccs = config.ccs;
	for (const std::string &text : config.prefixes)
		if (auto p = Prefix::parse(text))
			o.prefixes.push_back(*p);
	o.max_prefixes = static_cast<std::size_t>(config.max_prefixes);
	o.keep_group_ns = config.history_s * ns_per_s;
	o.remember_passed_over = config.ended;
	return o;
}

ClockRow clock_row(const NicClock &c, std::string dev, std::int64_t now_ns)
{
	ClockRow row;

	row.dev = std::move(dev);
	row.state = c.valid_ms > 0 ? "fed" : "stale";
	row.offset_ns = static_cast<std::int64_t>(c.line.host_ns - c.line.nic_ns);
	row.drift_ppb = c.line.drift_ppm() * 1e3;
	row.error_ns = c.line.error_ns;
	row.age_s = static_cast<double>(now_ns - static_cast<std::int64_t>(c.line.host_ns)) / 1e9;
	return row;
}

std::vector<CreditRow> credit_rows(const std::vector<CreditLink> &links, const std::function<std::string(std::uint32_t)> &name_of)
{
	std::vector<CreditRow> rows;

	for (const CreditLink &l : links) { // by number, as the module has them
		if (rows.size() < CreditRow::most)
			rows.push_back({name_of(l.ifindex), 0, 0});
		else if (rows.size() == CreditRow::most)
			rows.push_back({std::string(label_other), 0, 0});
		rows.back().lent_bytes += l.lent_bytes;
		rows.back().most_bytes += l.most_bytes;
	}
	return rows;
}

// --- Counters ------------------------------------------------------------------------------

GroupCounters &Counters::at(const FlowGroup &group, std::int64_t now_ns)
{
	const FlowGroup labels = places_.has(group) ? group : rest_of(group);
	GroupCounters &c = groups_[labels];

	c.labels = labels;
	c.seen_ns = now_ns;
	return c;
}

void Counters::know(const FlowGroup &group, double traffic, std::int64_t now_ns)
{
	if (group.dst_prefix != label_other) // of the rest already
		places_.know(group, traffic, now_ns);
}

void Counters::add(const Summary &summary, std::int64_t keep_ns, const std::vector<EndedCount> &ended, std::size_t most)
{
	const auto bucket = [](const auto &edges, double v) {
		return static_cast<std::size_t>(std::lower_bound(edges.begin(), edges.end(), v) - edges.begin());
	};

	places_.grow_older(summary.interval_s);
	for (const GroupSummary &g : summary.groups)
		know(g.labels, static_cast<double>(g.bytes_new + g.flows), summary.now_ns);
	for (const EndedCount &e : ended)
		know(e.labels, static_cast<double>(e.bytes_new + 1), summary.now_ns);
	for (const auto &[labels, n] : summary.ended)
		know(labels, 0, summary.now_ns);
	places_.give(summary.now_ns, keep_ns, most, [&](const FlowGroup &lost) { groups_.erase(lost); });
	for (const GroupSummary &g : summary.groups) {
		GroupCounters &c = at(g.labels, summary.now_ns);

		c.retrans_pkts += g.retrans_new;
		c.segments += g.segments_new;
		c.bytes += g.bytes_new;
		retrans_pkts_ += g.retrans_new;
		if (g.decreases && !c.decreases)
			c.decreases.emplace();
		for (std::size_t i = 0; g.decreases && i < causes; i++)
			(*c.decreases)[i] += (*g.decreases)[i];
		for (const auto &[part, h] : g.samples)
			c.delays[part] += h;
	}
	for (const auto &[labels, n] : summary.ended)
		at(labels, summary.now_ns).ended += n;
	for (const EndedCount &e : ended) {
		GroupCounters &c = at(e.labels, summary.now_ns);
		const double busy_s = static_cast<double>(e.flow.busy_us) / 1e6;
		const auto size_bytes = static_cast<double>(e.bytes);

		c.ended += !e.seen; // the others are missing in the next look
		c.bytes += e.bytes_new;
		c.segments += e.segments_new;
		c.retrans_pkts += e.retrans_new;
		retrans_pkts_ += e.retrans_new;
		if (!e.sent)
			continue;
		c.busy_s[bucket(busy_edges_s, busy_s)]++;
		c.busy_sum_s += busy_s;
		c.size_bytes[bucket(size_edges_bytes, size_bytes)]++;
		c.size_sum_bytes += size_bytes;
		c.native_busy_s.add(busy_s);
		c.native_size_bytes.add(size_bytes);
	}
	std::erase_if(groups_, [&](const auto &item) {
		return summary.now_ns - item.second.seen_ns >= keep_ns;
	});
}

std::vector<GroupCounters> Counters::all() const
{
	std::vector<GroupCounters> out;

	out.reserve(groups_.size());
	for (const auto &[labels, c] : groups_)
		out.push_back(c);
	return out;
}

// --- Owners --------------------------------------------------------------------------------

std::vector<OwnerSummary> OwnerBook::add(const Summary &summary, const std::vector<OwnerSummary> &owners, std::size_t most,
					 std::int64_t keep_ns)
{
	std::vector<OwnerSummary> out;
	OwnerSummary rest;

	rest.name = label_other;
	places_.grow_older(summary.interval_s);
	for (const OwnerSummary &o : owners) {
		const Key key = {o.netns, o.name, o.dst_prefix};

		if (o.name != label_other && (places_.knows(key) || places_.size() < most_known))
			places_.know(key, static_cast<double>(o.bytes_new + o.flows), summary.now_ns);
	}
	places_.give(summary.now_ns, keep_ns, most, [&](const Key &lost) { owners_.erase(lost); });
	for (const OwnerSummary &o : owners) {
		const Key key = {o.netns, o.name, o.dst_prefix};
		const bool room = places_.has(key);

		if (!room && !o.dst_prefix.empty())
			rest.dst_prefix = label_other;
		const Key shown = room ? key : Key{"", rest.name, rest.dst_prefix};
		OwnerCounters &c = owners_[shown];

		c.netns = shown[0];
		c.name = shown[1];
		c.dst_prefix = shown[2];
		c.seen_ns = summary.now_ns;
		c.retrans_pkts += o.retrans_new;
		c.bytes += o.bytes_new;
		if (room)
			out.push_back(o);
		else
			rest += o;
	}
	if (rest.flows > 0)
		out.push_back(std::move(rest));
	std::erase_if(owners_, [&](const auto &o) { return summary.now_ns - o.second.seen_ns >= keep_ns; });
	return out;
}

std::vector<OwnerCounters> OwnerBook::all() const
{
	std::vector<OwnerCounters> out;

	for (const auto &[key, c] : owners_)
		out.push_back(c);
	return out;
}

Result<std::optional<TelemetryReading>> loaded_telemetry(const BpfHost &bpf)
{
	const auto telemetry = Telemetry::open(bpf);

	if (!telemetry && telemetry.error().code == ENOENT)
		return std::optional<TelemetryReading>();
	ASSIGN_OR_RETURN(auto reading,
			 telemetry ? telemetry->read_prefixes(this_netns_inode()) : telemetry.error());
	return std::optional(std::move(reading));
}

// --- Collector -----------------------------------------------------------------------------

Collector::Collector(const Config::Collect &config, OwnClocks own_clocks, FlowObserver flows)
	: config_(config), own_clocks_(std::move(own_clocks)), flows_(std::move(flows))
{
}

Result<Collector> Collector::open(const Config::Collect &config, OwnClocks own_clocks)
{
	ASSIGN_OR_RETURN(auto flows,
			 FlowObserver::open(table_options(config), bpf_flow_storages, storages_every_ns));

	flows.look_at(scope_of(config));
	return Collector(config, std::move(own_clocks), std::move(flows));
}

void Collector::reconfigure(const Config::Collect &config)
{
	// Of other flows that are looked at then nobody knows what they had before.
	const bool regroup = config.netns != config_.netns || config.ccs != config_.ccs || config.prefixes != config_.prefixes ||
			     config.max_prefixes != config_.max_prefixes || config.ended != config_.ended ||
			     config.history_s != config_.history_s;

	config_ = config;
	flows_.look_at(scope_of(config));
	netns_trouble_.clear();
	if (!regroup)
		return;
	flows_.reconfigure(table_options(config));
	// What had ended since the last look was in that book: in a new one all its bytes would be new.
	if (ended_)
		ended_->take();
	ended_book_ = {};
	counters_ = {};
	owner_prefixes_ = {};
}

// Absent unless somebody has loaded it; the first reading alone tells of no interval.
std::unique_ptr<HistogramSource> Collector::read_telemetry()
{
	auto reading = loaded_telemetry(*bpf_);
	const std::string trouble = reading ? "" : reading.error().text();

	if (!reading)
		count_error("telemetry");
	if (!reading && trouble != telemetry_trouble_)
		spdlog::warn("delays are sampled, without the telemetry: {}", trouble);
	telemetry_trouble_ = trouble;
	if (!reading || !*reading) {
		telemetry_.reset();
		return nullptr;
	}
	std::unique_ptr<HistogramSource> source;

	if (telemetry_)
		source = std::make_unique<TelemetrySource>((*reading)->since(*telemetry_), table_options(config_).prefixes);
	telemetry_ = std::move(*reading);
	return source;
}

Result<void> Collector::visit_flows(const Telemetry::ShowFlow &show)
{
	const std::int64_t begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	const auto telemetry = Telemetry::open(*bpf_);
	auto done = telemetry ? telemetry->visit_flows(this_netns_inode(), {}, show) : Result<void>(telemetry.error());

	cpu_s_ += static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns) / 1e9;
	return done;
}

void Collector::look_at_module(Snapshot &s)
{
	s.module_loaded = module_loaded(*files_);
	if (!s.module_loaded)
		return;
	if (auto text = files_->read_file("/sys/module/tcp_swift/version"))
		s.module_version = trim(*text);
	if (auto text = files_->read_file("/proc/net/tcp_swift"))
		s.module_counters = parse_counters(*text);
	s.verdicts = verdict_options(*files_);
}

void Collector::look_at_clocks(Snapshot &s)
{
	if (own_clocks_)
		s.clocks = own_clocks_();
	if (!s.module_loaded)
		return;
	const auto clocks = nics_->nic_clocks();

	if (!clocks) {
		// A module that is on its way out has no family any more.
		if (clocks.error().code != ENOENT && module_loaded(*files_))
			count_error("clocks");
		return;
	}
	for (const NicClock &c : *clocks) {
		ClockRow row = clock_row(c, dev_name(c.ifindex), s.summary.now_ns);

		if (std::none_of(s.clocks.begin(), s.clocks.end(),
				 [&](const ClockRow &own) { return own.dev == row.dev; }))
			s.clocks.push_back(std::move(row));
	}
}

// Where it is off nothing is lent, though devices are known from before.
void Collector::look_at_credit(Snapshot &s)
{
	const auto on = s.module_loaded ? read_sysctl(*files_, "net.ipv4.tcp_swift.credit") : Result<std::string>(Error{""});

	if (!on || *on != "1")
		return;
	auto genl = open_module_genl();
	const auto links = genl ? credit_links(std::move(*genl)) : Result<std::vector<CreditLink>>(genl.error());

	if (links)
		s.credit = credit_rows(*links, dev_name);
	else if (links.error().code != error_no_module && links.error().code != EOPNOTSUPP) // it goes, or is older
		count_error("credit");
}

// What keeps us from others' flows keeps us from nothing else.
void Collector::judge_netns(const FlowLook &look)
{
	const std::string trouble = look.netns_trouble ? look.netns_trouble->text() : "";
	const bool no_rights =
		look.netns_trouble && (look.netns_trouble->code == EPERM || look.netns_trouble->code == EACCES);

	if (no_rights && look.netns == 0 && config_.netns == "auto") {
		spdlog::info("flows of this network namespace alone: {}", trouble);
		flows_.look_at(NetnsScope::own);
		return;
	}
	if (!trouble.empty())
		count_error("netns");
	if (!trouble.empty() && trouble != netns_trouble_)
		spdlog::warn("not all network namespaces: {}", trouble);
	netns_trouble_ = trouble;
}

std::vector<EndedCount> Collector::take_ended(const FlowSet &set)
{
	if (!ended_)
		return {};
	std::vector<EndedCount> out =
		ended_book_.add(set, ended_->take(), table_options(config_), flows_.ifaces());
	const EndedLosses losses = ended_->losses();

	ended_totals_.flows += out.size();
	ended_totals_.unseen += static_cast<std::uint64_t>(
		std::count_if(out.begin(), out.end(), [](const EndedCount &c) { return !c.seen; }));
	if (losses.overruns + losses.dropped > 0 &&
	    ended_totals_.losses.overruns + ended_totals_.losses.dropped == 0)
		spdlog::warn("more flows end than can be counted: swiftd_ended_overruns_total, swiftd_ended_dropped_total");
	ended_totals_.losses = losses;
	return out;
}

void Collector::look_at_process(Snapshot &s)
{
	rusage u{};

	getrusage(RUSAGE_SELF, &u);
	s.cpu_seconds = seconds(u.ru_utime) + seconds(u.ru_stime);
	if (auto text = files_->read_file("/proc/self/statm")) {
		const auto parts_of = words(*text);

		if (parts_of.size() > 1)
			if (auto pages = parse_int("", parts_of[1], 0, std::int64_t{1} << 40))
				s.resident_bytes = static_cast<std::uint64_t>(*pages * sysconf(_SC_PAGESIZE));
	}
}

Result<std::shared_ptr<Snapshot>> Collector::collect(const std::function<void()> &alive)
{
	const std::int64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
	const std::int64_t cpu_begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	auto s = std::make_shared<Snapshot>();

	stats_.collections++;
	if (!config_.ended) {
		ended_.reset();
		ended_tried_ = false;
	} else if (!ended_tried_) {
		auto ended = EndedFlows::start();

		ended_tried_ = true;
		if (ended) {
			ended_ = std::move(*ended);
			flows_.forget_netns(); // it has to hear of them, too
		} else {
			spdlog::warn("flows are not counted at their end: {}", ended.error().text());
		}
	}
	flows_.on_new_netns([this](const Netns &n, int fd) {
		const auto heard = ended_ && ended_->may_hear_others() ? ended_->hear(fd) : Result<void>();

		if (!heard)
			spdlog::debug("network namespace {}: flows are not counted at their end: {}", n.name,
				      heard.error().text());
	});
	auto look = flows_.look(alive);

	if (!look) {
		count_error("dump");
		return look.error();
	}
	if (!look->ifaces_known)
		count_error("interfaces");
	const DiagStatus &status = look->status;

	for (const auto &[what, wrong] : {std::pair("interrupted", status.interrupted),
					  {"bad_records", status.bad_records > 0},
					  {"malformed", status.malformed > 0}})
		if (wrong)
			count_error(what);
	judge_netns(*look);
	s->netns = 1 + look->netns;
	s->flows = std::move(look->flows);
	look_at_module(*s);
	s->time_s = static_cast<double>(clock_ns(CLOCK_REALTIME)) / 1e9;
	const auto source = read_telemetry();

	s->summary = summarize(*s->flows, source.get(), s->verdicts);
	auto ended = take_ended(*s->flows);

	counters_.add(s->summary, config_.history_s * ns_per_s, ended, static_cast<std::size_t>(config_.max_groups));
	std::erase_if(ended, [](const EndedCount &e) { return e.seen; });
	s->short_flows_left_out = ended.size() - std::min(ended.size(), Snapshot::most_short_flows);
	ended.resize(ended.size() - s->short_flows_left_out);
	s->short_flows = std::move(ended);
	s->ended = ended_totals_;
	s->counters = counters_.all();
	const std::int64_t keep_ns = config_.history_s * ns_per_s;

	s->owners = owners_.add(s->summary, s->summary.owners, static_cast<std::size_t>(config_.max_owners), keep_ns);
	s->owner_counters = owners_.all();
	if (config_.max_owner_prefixes > 0) {
		s->owner_prefixes = owner_prefixes_.add(s->summary, s->summary.owner_prefixes,
							static_cast<std::size_t>(config_.max_owner_prefixes), keep_ns);
		s->owner_prefix_counters = owner_prefixes_.all();
	}
	s->retrans_pkts = counters_.retrans_pkts();
	s->number = ++number_;
	s->prefixes = table_options(config_).prefixes;
	look_at_clocks(*s);
	look_at_credit(*s);
	look_at_process(*s);

	const double took_s = static_cast<double>(clock_ns(CLOCK_MONOTONIC) - begun_ns) / 1e9;
	const auto edge = std::lower_bound(collect_edges_s.begin(), collect_edges_s.end(), took_s);

	stats_.seconds[static_cast<std::size_t>(edge - collect_edges_s.begin())]++;
	stats_.seconds_sum += took_s;
	stats_.native_seconds.add(took_s);
	s->collect = stats_;
	cpu_s_ = static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begun_ns) / 1e9 + look->others_cpu_s;
	return s;
}

} // namespace swift
