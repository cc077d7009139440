// SPDX-License-Identifier: MIT
#include "api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "flow_json.h"
#include "metrics.h"
#include "text.h"

namespace swift {

namespace {

using nlohmann::json;

constexpr int version = 1;
constexpr std::size_t longest_target = 4096;
constexpr std::size_t most_query_items = 32;
constexpr std::size_t longest_search = 100;
constexpr std::size_t longest_name = 1024;
constexpr std::size_t most_flows = 1000;
constexpr std::size_t most_peers = 1000;
constexpr std::string_view flows_path = "/api/v1/flows";
constexpr std::string_view json_type = "application/json";

SharedText shared(std::string text)
{
	return std::make_shared<const std::string>(std::move(text));
}

std::string dumped(const json &j)
{
	return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

// @make: a json, if nobody has asked for @key of this snapshot yet.
template <typename Make>
Response cached_response(const View &view, const Snapshot &s, const std::string &key, Make make)
{
	const auto text = [&] { return dumped(make()) + "\n"; };

	return {200, std::string(json_type), view.cache ? view.cache->get(s.number, key, text) : shared(text()), {}};
}

Response json_response(const json &j)
{
	return {200, std::string(json_type), shared(dumped(j) + "\n"), {}};
}

Error not_allowed(std::string_view name, std::string_view value, std::string_view allowed)
{
	return Error{fmt::format("{}={}: allowed are {}", name, value, allowed)};
}

template <typename T, std::size_t n>
std::optional<T> one_of(const std::array<std::pair<std::string_view, T>, n> &all, std::string_view text)
{
	for (const auto &[name, value] : all)
		if (name == text)
			return value;
	return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, FlowSort>, 7> sorts = {
	{{"rate", FlowSort::rate},
	 {"fabric", FlowSort::fabric},
	 {"host", FlowSort::host},
	 {"rtt", FlowSort::rtt},
	 {"window", FlowSort::window},
	 {"retrans", FlowSort::retrans},
	 {"age", FlowSort::age}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> orders = {{{"desc", true}, {"asc", false}}};
constexpr std::array<std::pair<std::string_view, Limit>, 3> limits = {
	{{"fabric", Limit::fabric}, {"host", Limit::host}, {"both", Limit::both}}};

int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				      -1;
}

std::optional<std::string> percent_decoded(std::string_view s, bool plus_is_blank)
{
	std::string out;

	for (std::size_t i = 0; i < s.size(); i++) {
		char c = s[i];

		if (c == '%') {
			const int high = i + 2 < s.size() ? hex_digit(s[i + 1]) : -1;
			const int low = i + 2 < s.size() ? hex_digit(s[i + 2]) : -1;

			if (high < 0 || low < 0)
				return std::nullopt;
			c = static_cast<char>(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
			return std::nullopt;
		out += c;
	}
	return out;
}

// --- A flow ------------------------------------------------------------------------------

template <typename T> json or_null(const std::optional<T> &v)
{
	return v ? json(*v) : json();
}

void add_owner(json &flow, const FlowSet &set, const FlowRow &f)
{
	Json whose;

	add_owner_json(whose, set.netns[f.netns], set.owners[f.owner].who);
	for (const auto &[name, value] : whose.items())
		flow[name] = value;
}

json row_json(const Snapshot &s, const FlowRow &f)
{
	const FlowSet &set = *s.flows;
	json j = flow_json(f, s.verdicts);

	j["iface"] = set.ifaces[f.iface];
	j["dst_prefix"] = set.groups[f.group].dst_prefix;
	j["cc"] = set.ccs[f.cc];
	add_owner(j, set, f);
	j["rate_bps"] = static_cast<double>(f.rate_Bps) * 8;
	j["retrans_per_s"] = f.retrans_per_s;
	j["age_s"] = static_cast<double>(set.now_ns - f.first_seen_ns) / 1e9;
	return j;
}

std::optional<json> flows_json(const Snapshot &s, const FlowSelection &q, const Cancelled &cancelled = {})
{
	const std::vector<FlowRow> &rows = s.flows->rows;
	const auto found = find_flows(*s.flows, s.verdicts, q, cancelled);
	auto list = json::array();

	if (!found)
		return std::nullopt;
	for (const std::uint32_t i : found->rows)
		list.push_back(row_json(s, rows[i]));
	return json{{"version", version},  {"time_s", s.time_s},	{"interval_s", s.summary.interval_s},
		    {"total", rows.size()}, {"matched", found->matched}, {"offset", q.offset},
		    {"flows", std::move(list)}};
}

// --- The summary ---------------------------------------------------------------------------

json quantiles_json(const std::optional<Quantiles> &q)
{
	if (!q)
		return {};
	return {{"p50", q->p50}, {"p90", q->p90}, {"p99", q->p99}, {"mean", q->mean}, {"n", q->n}};
}

json sources_json(const std::array<std::size_t, 3> &n)
{
	json j;

	for (const Stamp s : {Stamp::hardware, Stamp::software, Stamp::none})
		j[std::string(source_text(s))] = n[static_cast<std::size_t>(s)];
	return j;
}

// Flows that nothing measured are not in it.
json held_json(const GroupSummary &g)
{
	json j;

	for (std::size_t i = 1; i < bounds; i++)
		j[std::string(bound_text(static_cast<Bound>(i)))] = g.held[i];
	return j;
}

json group_json(const GroupSummary &g)
{
	json j = {{"dst_prefix", g.labels.dst_prefix},
		  {"cc", g.labels.cc},
		  {"iface", g.labels.iface},
		  {"netns", g.labels.netns.empty() ? json() : json(g.labels.netns)},
		  {"histograms", g.sampled ? "sampled" : "bpf"},
		  {"flows", g.flows},
		  {"rate_bps", g.rate_Bps * 8},
		  {"limited",
		   {{"fabric", g.limited[static_cast<std::size_t>(Limit::fabric)]},
		    {"host", g.limited[static_cast<std::size_t>(Limit::host)]},
		    {"both", g.limited[static_cast<std::size_t>(Limit::both)]}}},
		  {"held", held_json(g)},
		  {"idle", g.idle},
		  {"stamps", sources_json(g.stamps)},
		  {"echo", sources_json(g.echo)},
		  {"verdict",
		   {{"limit", bound_text(g.verdict.bound)},
		    {"text", g.verdict.text},
		    {"host_ns", g.measured > 0 ? json(g.verdict.host_ns) : json()},
		    {"fabric_ns", g.measured > 0 ? json(g.verdict.fabric_ns) : json()}}}};

	for (std::size_t p = 0; p < parts; p++)
		j[std::string(part_text(static_cast<Part>(p))) + "_ns"] = quantiles_json(g.delays[p]);
	return j;
}

json owner_json(const OwnerSummary &o)
{
	const auto text = [](const std::string &s) { return s.empty() ? json() : json(s); };
	const auto mean = [](double sum, std::size_t n) { return n > 0 ? json(sum / static_cast<double>(n)) : json(); };
	json held;

	for (std::size_t i = 1; i < bounds; i++)
		held[std::string(bound_text(static_cast<Bound>(i)))] = o.held[i];
	return {{"netns", text(o.netns)},
		{"owner", text(o.name)},
		{"pod", text(o.who.pod)},
		{"container", text(o.who.container)},
		{"unit", text(o.who.unit)},
		{"cgroup", text(o.who.cgroup)},
		{"flows", o.flows},
		{"idle", o.idle},
		{"held", std::move(held)},
		{"rate_bps", o.rate_Bps * 8},
		{"rtt_ns", mean(o.rtt_ns, o.with_rtt)},
		{"fabric_ns", mean(o.fabric_ns, o.measured)},
		{"host_ns", mean(o.host_ns, o.measured)}};
}

json clock_json(const ClockRow &c)
{
	return {{"dev", c.dev},
		{"state", c.state},
		{"offset_ns", or_null(c.offset_ns)},
		{"drift_ppb", or_null(c.drift_ppb)},
		{"error_ns", or_null(c.error_ns)},
		{"age_s", or_null(c.age_s)}};
}

json tune_json(const TuneRow &t)
{
	auto events = json::array();

	for (const auto &[time_s, e] : t.events)
		events.push_back({{"time_s", time_s},
				  {"event", tune_event_text(e.kind)},
				  {"from_ns", e.from_ns},
				  {"to_ns", e.to_ns},
				  {"reason", e.reason}});
	return {{"state", t.state},
		{"knob", t.knob},
		{"base_target_ns", or_null(t.base_target_ns)},
		{"proposal_ns", or_null(t.proposal_ns)},
		{"reason", t.reason},
		{"events", std::move(events)}};
}

json policy_json(const PolicyRow &p)
{
	const auto or_null = [](const auto &v, bool there) { return there ? json(v) : json(); };
	const bool in_force = !p.version.empty();

	return {{"state", p.state},
		{"reason", p.reason},
		{"version", or_null(p.version, in_force)},
		{"author", or_null(p.author, in_force)},
		{"expires_s", or_null(p.expires_s, in_force)},
		{"since_s", or_null(p.since_s, in_force)},
		{"targets", p.targets},
		{"guard", or_null(p.guard, in_force)},
		{"ended", p.ended}};
}

json policy_detail_json(const PolicyRow &p, double time_s)
{
	const auto or_null = [](const std::string &s) { return s.empty() ? json() : json(s); };
	auto targets = json::array();
	auto events = json::array();

	for (const PolicySetting &t : p.set)
		targets.push_back({{"place", t.place},
				   {"tunable", t.tunable},
				   {"before", t.before ? json(*t.before) : json()},
				   {"value", t.value},
				   {"lost", or_null(t.lost)}});
	for (const PolicyRow::Past &e : p.events)
		events.push_back({{"time_s", e.time_s},
				  {"event", e.event},
				  {"version", or_null(e.version)},
				  {"author", or_null(e.author)},
				  {"reason", e.reason}});
	return {{"version", version},
		{"time_s", time_s},
		{"policy", policy_json(p)},
		{"targets", std::move(targets)},
		{"events", std::move(events)}};
}

json probe_times_json(const ProbeTimes &t)
{
	if (t.n == 0)
		return {};
	return {{"n", t.n}, {"min", t.min_ns}, {"p50", t.p50_ns}, {"p90", t.p90_ns}, {"p99", t.p99_ns}};
}

json probed_json(const ProbeSummary &s, const ProbeVerdict &v)
{
	return {{"sent", s.sent},
		{"lost", s.lost},
		{"other_stamps", s.other_stamps},
		{"stamps", {{"local", source_text(s.local)}, {"remote", source_text(s.remote)}}},
		{"fabric_ns", probe_times_json(s.fabric)},
		{"host_ns", probe_times_json(s.host)},
		{"remote_host_ns", probe_times_json(s.remote_host)},
		{"local_host_ns", probe_times_json(s.local_host)},
		{"verdict", {{"state", state_text(v.state)}, {"limit", bound_text(v.bound)}, {"text", v.text}}}};
}

// By name; several reasons have the same.
json refusals_json(const RefusalCounts &counts)
{
	json j = json::object();

	for (std::size_t i = 0; i < refusals; i++) {
		const std::string name(refusal_name(static_cast<Refusal>(i)));

		j[name] = j.value(name, std::uint64_t{0}) + counts[i];
	}
	return j;
}

json pair_json(const ProbePairRow &row)
{
	json j = probed_json(row.summary, row.verdict);
	json states;

	for (std::size_t i = 0; i < peer_states; i++)
		states[std::string(state_text(static_cast<PeerState>(i)))] = row.states[i];
	j["rack"] = row.rack;
	j["peer_rack"] = row.peer_rack;
	j["peers"] = row.peers;
	j["states"] = std::move(states);
	j["told_by"] = row.told_by.empty() ? json() : json(row.told_by);
	return j;
}

// @mesh: what others say, but for what this host knows by itself.
json probes_json(const ProbeNews &p, const std::vector<ProbePairRow> &mesh, std::size_t limit)
{
	auto pairs = json::array();
	auto peers = json::array();

	for (const ProbePairRow &row : p.pairs)
		pairs.push_back(pair_json(row));
	for (const ProbePairRow &row : mesh)
		if (std::none_of(p.pairs.begin(), p.pairs.end(), [&](const ProbePairRow &own) {
			    return own.rack == row.rack && own.peer_rack == row.peer_rack;
		    }))
			pairs.push_back(pair_json(row));
	for (const ProbePeerRow &row : p.peers) {
		if (peers.size() == limit)
			break;
		json j = probed_json(row.summary, row.verdict);

		j["peer"] = row.name;
		j["peer_rack"] = row.rack;
		j["trouble"] = row.trouble.empty() ? json() : json(row.trouble);
		peers.push_back(std::move(j));
	}
	return {{"version", version},
		{"time_s", p.time_s},
		{"rack", p.rack},
		{"answering", p.places},
		{"signed", p.is_signed},
		{"answered", p.answered},
		{"refused", refusals_json(p.refused)},
		{"unbelieved", refusals_json(p.unbelieved)},
		{"rate_pps", p.rate_pps},
		{"cycle_s", p.cycle_s},
		{"window_s", p.window_s},
		{"limits", {{"fabric_ns", p.limits.fabric_ns}, {"host_ns", p.limits.host_ns}}},
		{"total", p.peers.size()},
		{"pairs", std::move(pairs)},
		{"peers", std::move(peers)}};
}

// The wall clock may have been set meanwhile: old points are told in today's time.
json history_json(const History &history, const View &view, bool windows)
{
	json j = {{"time_s", json::array()},   {"fabric_ns", json::array()}, {"host_ns", json::array()},
		  {"target_ns", json::array()}, {"rate_bps", json::array()}};
	const auto push = [&](const char *name, const std::optional<double> &v) {
		j[name].push_back(or_null(v));
	};

	if (windows)
		j["fcwnd_pkts"] = j["ecwnd_pkts"] = json::array();
	for (const HistoryPoint &p : history) {
		push("time_s", view.time_s - static_cast<double>(view.now_ns - p.at_ns) / 1e9);
		push("fabric_ns", p.fabric_ns);
		push("host_ns", p.host_ns);
		push("target_ns", p.target_ns);
		push("rate_bps", p.rate_bps);
		if (windows) {
			push("fcwnd_pkts", p.fcwnd_pkts);
			push("ecwnd_pkts", p.ecwnd_pkts);
		}
	}
	return j;
}

// --- The endpoints ---------------------------------------------------------------------------

using Items = QueryItems;

Response bad_request(const Error &e)
{
	return error_response(400, e.text());
}

std::optional<Error> unknown_item(const Items &items, std::initializer_list<std::string_view> known)
{
	for (const auto &[name, value] : items)
		if (std::find(known.begin(), known.end(), name) == known.end())
			return Error{known.size() == 0 ?
					     fmt::format("{}: unknown parameter; none is allowed", name) :
					     fmt::format("{}: unknown parameter; allowed are {}", name,
							 fmt::join(known, ", "))};
	return std::nullopt;
}

Response get_summary(const Items &items, const News &news, const View &view)
{
	const Snapshot &s = *news.snapshot;
	bool history = false;

	if (const auto error = unknown_item(items, {"history"}))
		return bad_request(*error);
	for (const auto &[name, value] : items) {
		if (value != "0" && value != "1")
			return bad_request(not_allowed(name, value, "0 and 1"));
		history = value == "1";
	}
	// Of one snapshot there may be more than one summary, then.
	const std::string trouble = news.trouble ? news.trouble->text + dumped(tune_json(news.trouble->tune)) + dumped(policy_json(news.trouble->policy)) : "";

	if (!history)
		return cached_response(view, s, "summary " + trouble,
				       [&] { return summary_json(s, view.facts, news.trouble); });

	json j = summary_json(s, view.facts, news.trouble);

	j["history"] = {{"step_s", view.store.history_step_s()}, {"prefixes", json::object()}};
	for (const auto &[key, points] : view.store.group_histories())
		j["history"]["prefixes"][key] = history_json(points, view, false);
	return json_response(j);
}

Response get_flow(std::string_view id, const Items &items, const Snapshot &s, const View &view)
{
	std::uint64_t cookie = 0;
	const auto r = std::from_chars(id.data(), id.data() + id.size(), cookie, 16);

	if (const auto error = unknown_item(items, {}))
		return bad_request(*error);
	if (r.ec != std::errc() || r.ptr != id.data() + id.size())
		return bad_request(not_allowed("flow", id, "the ids that /api/v1/flows lists"));
	for (const FlowRow &f : s.flows->rows) {
		if (f.cookie != cookie)
			continue;
		const Verdict v = flow_verdict(f, s.verdicts);
		json history = history_json(view.store.flow_history(cookie), view, true);
		json row = row_json(s, f);

		row["process"] = process_json(view.store.process_of(f.inode, s.flows->owners[f.owner].who.cgroup));

		history["step_s"] = view.store.history_step_s();
		Response out = json_response({{"version", version},
					      {"time_s", s.time_s},
					      {"flow", std::move(row)},
					      {"history", std::move(history)},
					      {"verdict", {{"limit", bound_text(v.bound)}, {"text", v.text}}}});

		out.watch = cookie;
		return out;
	}
	return error_response(404, fmt::format("flow {} is not live", flow_id_text(cookie)));
}

Response get_metrics(const Items &items, std::string_view accept, const News &news, const View &view)
{
	const Snapshot &s = *news.snapshot;
	const MetricsForm form = accepted_form(accept);

	if (const auto error = unknown_item(items, {"histograms"}))
		return bad_request(*error);
	for (const auto &[name, value] : items)
		if (value != "classic")
			return bad_request(not_allowed(name, value, "classic"));
	auto families = metric_families(s, news.trouble ? news.trouble->collect : s.collect, view.store.http,
					static_cast<double>(view.now_ns - s.summary.now_ns) / 1e9);

	return {200, std::string(content_type(form)), shared(write_metrics(std::move(families), form, !items.empty())), {}, true};
}

Response get_probes(const Items &items, const View &view)
{
	static const ProbeNews none;
	const auto probes = view.store.probes();
	std::size_t limit = most_peers;

	if (const auto error = unknown_item(items, {"limit"}))
		return bad_request(*error);
	for (const auto &[name, value] : items) {
		const auto v = parse_int(name, value, 0, static_cast<std::int64_t>(most_peers));

		if (!v)
			return bad_request(not_allowed(name, value, fmt::format("0 to {}", most_peers)));
		limit = static_cast<std::size_t>(*v);
	}
	return json_response(probes_json(probes ? *probes : none, view.store.mesh(), limit));
}

std::string none_yet(const News &news)
{
	return "no look at the flows has been finished yet" + (news.trouble ? ": " + news.trouble->text : "");
}

// A policy needs no look that succeeds.
Response get_policy(const Items &items, const View &view)
{
	const News news = view.store.news();

	if (const auto error = unknown_item(items, {}))
		return bad_request(*error);
	if (news.trouble)
		return json_response(policy_detail_json(news.trouble->policy, news.trouble->time_s));
	if (!news.snapshot)
		return error_response(503, none_yet(news));
	return json_response(policy_detail_json(news.snapshot->policy, news.snapshot->time_s));
}

Response get_health(const View &view)
{
	const News news = view.store.news();
	const auto &s = news.snapshot;
	const std::string type = "text/plain; charset=utf-8";

	if (!s)
		return {503, type, shared(none_yet(news) + "\n"), {}};
	const double age_s = static_cast<double>(view.now_ns - s->summary.now_ns) / 1e9;
	const double late_s = view.store.late_after_s();

	if (age_s > late_s)
		return {503, type,
			shared(fmt::format("the newest look at the flows is {:.1f} s old, more than {:.1f} s{}\n", age_s,
					   late_s, news.trouble ? ": " + news.trouble->text : "")),
			{}};
	return {200, type, shared("ok\n"), {}};
}

constexpr std::string_view plain_page =
	"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>swiftd</title><h1>swiftd</h1>"
	"<p>This build has no dashboard. There are <a href=\"/api/v1/summary?history=1\">the summary</a>, "
	"<a href=\"/api/v1/flows\">the flows</a>, <a href=\"/api/v1/config\">the configuration</a>, "
	"<a href=\"/metrics\">metrics</a> and <a href=\"/healthz\">health</a>.</p></html>\n";

std::optional<Response> get_asset(const std::string &path, const View &view)
{
	const std::string_view wanted = path == "/" ? std::string_view("/index.html") : path;

	for (const WebAsset &a : view.assets)
		if (a.path == wanted)
			return Response{200, std::string(a.content_type), shared(std::string(a.bytes)), {}};
	if (path == "/")
		return Response{200, "text/html; charset=utf-8", shared(std::string(plain_page)), {}};
	return std::nullopt;
}

} // namespace

Response error_response(unsigned status, std::string_view text)
{
	return {status, std::string(json_type), shared(dumped({{"version", version}, {"error", text}}) + "\n"), {}};
}

Result<std::pair<std::string, QueryItems>> parse_target(std::string_view target)
{
	const auto mark = target.find('?');
	QueryItems items;

	if (target.size() > longest_target)
		return Error{fmt::format("a URL of {} bytes: allowed are up to {}", target.size(), longest_target)};
	if (!target.starts_with('/'))
		return Error{"not a path"};
	auto path = percent_decoded(target.substr(0, mark), false);

	if (!path)
		return Error{"the path is not percent-encoded as it should be"};
	if (mark != std::string_view::npos && mark + 1 < target.size()) {
		for (const std::string &part : split(target.substr(mark + 1), '&')) {
			if (part.empty())
				continue;
			const auto equals = part.find('=');
			auto name = percent_decoded(std::string_view(part).substr(0, equals), true);
			auto value = equals == std::string::npos ?
					     std::optional<std::string>("") :
					     percent_decoded(std::string_view(part).substr(equals + 1), true);

			if (!name || !value)
				return Error{"a parameter is not percent-encoded as it should be"};
			if (std::any_of(items.begin(), items.end(), [&](const auto &i) { return i.first == *name; }))
				return Error{fmt::format("{}: given twice", *name)};
			if (items.size() == most_query_items)
				return Error{"too many parameters"};
			items.emplace_back(std::move(*name), std::move(*value));
		}
	}
	return std::pair(std::move(*path), std::move(items));
}

Result<FlowSelection> parse_flow_selection(const QueryItems &items)
{
	FlowSelection q;

	if (auto error = unknown_item(items, {"sort", "order", "limit", "offset", "cc", "prefix", "limit_by", "held_by", "iface",
					      "netns", "owner", "q"}))
		return *error;
	for (const auto &[name, value] : items) {
		if (name == "sort") {
			const auto sort = one_of(sorts, value);

			if (!sort)
				return not_allowed(name, value, "rate, fabric, host, rtt, window, retrans, age");
			q.sort = *sort;
		} else if (name == "order") {
			const auto order = one_of(orders, value);

			if (!order)
				return not_allowed(name, value, "desc and asc");
			q.descending = *order;
		} else if (name == "limit") {
			const auto v = parse_int(name, value, 1, most_flows);

			if (!v)
				return not_allowed(name, value, "1 to 1000");
			q.limit = static_cast<std::size_t>(*v);
		} else if (name == "offset") {
			const auto v = parse_int(name, value, 0, 1'000'000'000);

			if (!v)
				return not_allowed(name, value, "0 to 1000000000");
			q.offset = static_cast<std::size_t>(*v);
		} else if (name == "cc") {
			if (value.size() > 15)
				return not_allowed(name, value, "names of up to 15 letters");
			q.cc = value;
		} else if (name == "prefix") {
			const auto p = Prefix::parse(value);

			if (!p)
				return not_allowed(name, value, "prefixes such as 10.0.0.0/24, and addresses");
			q.prefix = *p;
		} else if (name == "limit_by") {
			q.limit_by = one_of(limits, value);
			if (!q.limit_by)
				return not_allowed(name, value, "fabric, host, both");
		} else if (name == "held_by") {
			q.held_by = parse_bound(value);
			if (!q.held_by)
				return not_allowed(name, value, bounds_allowed);
		} else if (name == "iface" || name == "netns" || name == "owner") {
			if (value.size() > longest_name)
				return not_allowed(name, value.substr(0, 20) + "...", "names of up to 1024 bytes");
			(name == "iface" ? q.iface : name == "netns" ? q.netns : q.owner) = value;
		} else {
			if (value.size() > longest_search)
				return not_allowed(name, value.substr(0, 20) + "...", "up to 100 bytes");
			q.q = value;
		}
	}
	return q;
}

json summary_json(const Snapshot &s, const HostFacts &facts, const std::optional<Trouble> &trouble)
{
	json module = {{"loaded", s.module_loaded}};
	const Totals &t = s.summary.totals;
	auto groups = json::array();
	auto clocks = json::array();
	auto owners = json::array();

	for (const OwnerSummary &o : s.owners)
		owners.push_back(owner_json(o));
	if (!s.module_version.empty())
		module["version"] = s.module_version;
	for (const GroupSummary &g : s.summary.groups)
		groups.push_back(group_json(g));
	for (const ClockRow &c : s.clocks)
		clocks.push_back(clock_json(c));
	json j = {{"version", version},
		{"time_s", s.time_s},
		{"interval_s", s.summary.interval_s},
		{"interval_ms", s.interval_ms},
		{"host", facts.host},
		{"kernel", facts.kernel},
		{"module", std::move(module)},
		{"histograms", s.summary.sampled ? "sampled" : "bpf"},
		{"totals",
		 {{"flows", t.flows},
		  {"swift_flows", t.swift_flows},
		  {"guarded_flows", t.guarded_flows},
		  {"rate_bps", t.rate_Bps * 8},
		  {"retrans_pkts", s.retrans_pkts},
		  {"retrans_per_s", s.summary.interval_s > 0 ?
					    static_cast<double>(t.retrans_new) / s.summary.interval_s :
					    0},
		  {"dropped_prefixes", t.dropped_prefixes}}},
		{"netns", s.netns},
		{"ended",
		 {{"flows", s.ended.flows},
		  {"unseen", s.ended.unseen},
		  {"overruns", s.ended.losses.overruns},
		  {"dropped", s.ended.losses.dropped}}},
		{"prefixes", std::move(groups)},
		{"owners", std::move(owners)},
		{"clocks", std::move(clocks)},
		{"tune", tune_json(trouble ? trouble->tune : s.tune)},
		{"policy", policy_json(trouble ? trouble->policy : s.policy)}};

	if (trouble)
		j["error"] = trouble->text;
	return j;
}

Result<StreamQuery> parse_stream(std::string_view target)
{
	ASSIGN_OR_RETURN(auto parsed, parse_target(target));
	StreamQuery out;
	Items rest;
	std::optional<std::size_t> flows;

	if (auto error = unknown_item(parsed.second, {"flows", "sort", "order", "cc", "prefix", "limit_by", "held_by", "iface",
						      "netns", "owner", "q"}))
		return *error;
	for (auto &[name, value] : parsed.second) {
		if (name != "flows") {
			rest.emplace_back(std::move(name), std::move(value));
			continue;
		}
		const auto v = parse_int(name, value, 1, most_flows);

		if (!v)
			return not_allowed(name, value, "1 to 1000");
		flows = static_cast<std::size_t>(*v);
	}
	ASSIGN_OR_RETURN(auto q, parse_flow_selection(rest));
	if (flows) {
		q.limit = *flows;
		out.flows = q;
	}
	return out;
}

std::string StreamQuery::key() const
{
	if (!flows)
		return {};
	return flows->key();
}

std::string trouble_event(const Trouble &t)
{
	return fmt::format("event: state\ndata: {}\n\n", dumped({{"version", version},
								  {"time_s", t.time_s},
								  {"collecting", false},
								  {"error", t.text}}));
}

std::optional<std::string> stream_events(const Snapshot &s, const StreamQuery &query, const HostFacts &facts,
					 const Cancelled &cancelled)
{
	std::string out = fmt::format("id: {}\nevent: summary\ndata: {}\n\n", s.number,
				      dumped(summary_json(s, facts)));

	if (query.flows) {
		const auto flows = flows_json(s, *query.flows, cancelled);

		if (!flows)
			return std::nullopt;
		out += fmt::format("id: {}\nevent: flows\ndata: {}\n\n", s.number, dumped(*flows));
	}
	return out;
}

std::optional<Search> search_of(const Request &request, const Store &store)
{
	const auto parsed = parse_target(request.target);

	if ((request.method != "GET" && request.method != "HEAD") || !parsed || parsed->first != flows_path)
		return std::nullopt;
	auto q = parse_flow_selection(parsed->second);
	auto s = store.newest();

	if (!q || !s)
		return std::nullopt;
	return Search{s->number, q->key(), [s, q = std::move(*q)](const Cancelled &cancelled) {
			      const auto j = flows_json(*s, q, cancelled);

			      return j ? std::optional(dumped(*j) + "\n") : std::nullopt;
		      }};
}

Response found_response(SharedText text)
{
	return {200, std::string(json_type), std::move(text), {}};
}

Response respond(const Request &request, const View &view)
{
	if (request.method != "GET" && request.method != "HEAD")
		return error_response(405, "this service can only be read: allowed are GET and HEAD");
	auto parsed = parse_target(request.target);

	if (!parsed)
		return bad_request(parsed.error());

	const auto &[path, items] = *parsed;

	if (path == "/healthz")
		return get_health(view);
	if (path == "/api/v1/config") {
		if (const auto error = unknown_item(items, {}))
			return bad_request(*error);
		return json_response({{"version", version}, {"options", options_json(view.store.config())}});
	}
	if (path == "/api/v1/probes")
		return get_probes(items, view);
	if (path == "/api/v1/policy")
		return get_policy(items, view);
	const bool of_snapshot = path == "/metrics" || path == "/api/v1/summary" || path == flows_path ||
				 path.starts_with(std::string(flows_path) + "/");

	if (!of_snapshot) {
		if (auto asset = get_asset(path, view))
			return *asset;
		return error_response(404, "there is no such page");
	}
	const News news = view.store.news();
	const auto &s = news.snapshot;

	if (!s)
		return error_response(503, none_yet(news));
	if (path == "/metrics")
		return get_metrics(items, request.accept, news, view);
	if (path == "/api/v1/summary")
		return get_summary(items, news, view);
	if (path != flows_path)
		return get_flow(std::string_view(path).substr(flows_path.size() + 1), items, *s, view);
	auto q = parse_flow_selection(items);

	return q ? cached_response(view, *s, "flows " + q->key(), [&] { return *flows_json(*s, *q); }) :
		   bad_request(q.error());
}

} // namespace swift
