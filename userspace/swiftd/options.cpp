// SPDX-License-Identifier: MIT
#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>

#include "flow.h"
#include "http_client.h"
#include "probe_peers.h"
#include "text.h"

namespace swift {

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr std::size_t most_listens = 8;
constexpr std::size_t most_list_items = 256; // of a list
constexpr double longest_gap_s = 30;

#define FIELD(table, field)                                                                     \
	[](const Config &c) -> OptionValue { return c.table.field; },                           \
		[](Config &c, OptionValue v) {                                                  \
			c.table.field = std::get<decltype(c.table.field)>(std::move(v));        \
		}

const std::vector<Option> &table()
{
	static const std::vector<Option> all = {
		{"collect.interval_s", FIELD(collect, interval_s), 0.1, 60, {}, "s", true,
		 "time between two looks at the host's flows"},
		{"collect.max_cpu_percent", FIELD(collect, max_cpu_percent), 1, 100, {}, "% of a core", true,
		 "when a look, with what answers requests, takes more CPU time than this part of the interval, the next one comes later"},
		{"collect.ccs", FIELD(collect, ccs), -no_limit, no_limit, {}, "", true,
		 "congestion controls whose flows are collected; \"*\": all"},
		{"collect.prefixes", FIELD(collect, prefixes), -no_limit, no_limit, {}, "", true,
		 "destination prefixes to count flows by, the longest that fits; others by /24 and /64"},
		{"collect.max_prefixes", FIELD(collect, max_prefixes), 1, 4096, {}, "", true,
		 "most destination prefixes at a time; flows to more are counted as \"other\""},
		{"collect.max_groups", FIELD(collect, max_groups), 1, 4096, {}, "", true,
		 "most groups (prefix, congestion control, interface) with metrics of their own, those with most traffic; the "
		 "rest are one, \"other\""},
		{"collect.history_s", FIELD(collect, history_s), 10, 3600, {}, "s", true,
		 "how far back the API's histories go, 300 points at most"},
		{"collect.netns", FIELD(collect, netns), 0, 0, {"auto", "own", "all"}, "", true,
		 "whose flows: all network namespaces of the host; own: swiftd's alone; auto: all if they can be "
		 "entered"},
		{"collect.max_owners", FIELD(collect, max_owners), 1, 4096, {}, "", true,
		 "most pods, containers, units and control groups with metrics of their own, those with most traffic; the rest are "
		 "one, \"other\""},
		{"collect.max_owner_prefixes", FIELD(collect, max_owner_prefixes), 0, 4096, {}, "", true,
		 "most pairs of an owner and a prefix with metrics of their own, those with most traffic; the rest are one, "
		 "\"other\"; 0: no such metrics"},
		{"collect.ended", FIELD(collect, ended), 0, 0, {}, "", true,
		 "count each flow once more when it ends, those too that no look has seen"},
		{"http.listen", FIELD(http, listen), -no_limit, no_limit, {}, "", false,
		 "addresses and ports to serve on; [::1]:9464 for IPv6; port 0: any free one"},
		{"http.max_connections", FIELD(http, max_connections), 4, 10000, {}, "", false,
		 "most connections at a time, to each address"},
		{"http.per_ip", FIELD(http, per_ip), 1, 10000, {}, "", false,
		 "most connections at a time from one address; all that come through a proxy have the proxy's"},
		{"http.timeout_s", FIELD(http, timeout_s), 1, 300, {}, "s", false,
		 "how long a client may take for a request, and how long it may be idle"},
		{"http.tls_certificate", FIELD(http, tls_certificate), 0, 0, {}, "", false,
		 "file with the certificate chain (PEM): serve HTTPS; needs tls_key"},
		{"http.tls_key", FIELD(http, tls_key), 0, 0, {}, "", false,
		 "file with the certificate's private key (PEM)"},
		{"http.token_file", FIELD(http, token_file), 0, 0, {}, "", false,
		 "file with a token that clients have to show: Authorization: Bearer TOKEN"},
		{"http.allow_anonymous", FIELD(http, allow_anonymous), 0, 0, {}, "", false,
		 "serve other hosts without a token"},
		{"http.token_in_clear", FIELD(http, token_in_clear), 0, 0, {}, "", false,
		 "take the token of other hosts without TLS: whoever sees their packets has it then"},
		{"http.names", FIELD(http, names), -no_limit, no_limit, {}, "", false,
		 "further names that clients call this host by; *.example.com: all below it"},
		{"clocks.devices", FIELD(clocks, devices), -no_limit, no_limit, {}, "", false,
		 "NICs whose clocks to feed to the module, as `swiftctl clock run` does; none: leave NICs alone"},
		{"clocks.interval_ms", FIELD(clocks, interval_ms), 10, 10000, {}, "ms", false,
		 "time between two readings of a NIC's clock"},
		{"tune.enabled", FIELD(tune, enabled), 0, 0, {}, "", true,
		 "look for the base target that the paths need, as `swiftctl tune` does"},
		{"tune.apply", FIELD(tune, apply), 0, 0, {}, "", true,
		 "try targets on the running flows and keep the best; false: only propose one"},
		{"tune.knob", FIELD(tune, knob), 0, 0, {"module", "bpf_swift", "bpf_swift_v0"}, "", true,
		 "whose target: the module's, in this network namespace, or a BPF variant's"},
		{"tune.prefix", FIELD(tune, prefix), 0, 0, {}, "", true,
		 "of a BPF variant: the target of flows to this destination prefix alone"},
		{"tune.min_us", FIELD(tune, min_us), 1, 1e6, {}, "us", true, "no smaller base target is tried"},
		{"tune.max_us", FIELD(tune, max_us), 1, 1e6, {}, "us", true, "no larger base target is tried"},
		{"tune.tolerance_percent", FIELD(tune, tolerance_percent), 0.1, 20, {}, "%", true,
		 "throughput that a smaller target may cost, in all"},
		{"tune.step_percent", FIELD(tune, step_percent), 6, 100, {}, "%", true,
		 "size of the first steps; later ones are smaller"},
		{"tune.measure", FIELD(tune, measure), 1, 1000, {}, "", true,
		 "intervals that a value is in force before it takes turns with the other"},
		{"tune.hold_s", FIELD(tune, hold_s), 0, 1e9, {}, "s", true,
		 "after the best was found: time until it looks again"},
		{"tune.learn_s", FIELD(tune, learn_s), 0, 86400, {}, "s", true,
		 "time to learn the paths' lengths before anything is proposed"},
		{"policy.file", FIELD(policy, file), 0, 0, {}, "", true,
		 "file with the targets to set, as `swiftctl policy check` takes it, read now and at each reload; none: set none"},
		{"probe.listen", FIELD(probe, listen), -no_limit, no_limit, {}, "", true,
		 "addresses and ports (UDP) to answer probes on, such as 0.0.0.0:21335 and [::]:21335; none: no probe is "
		 "answered"},
		{"probe.peers", FIELD(probe, peers), -no_limit, no_limit, {}, "", true,
		 "hosts to probe, each HOST, HOST:PORT or [ADDRESS]:PORT, and behind a blank the rack it is in"},
		{"probe.peers_file", FIELD(probe, peers_file), 0, 0, {}, "", true,
		 "file with more of them, one a line, read now and at each reload; this host may be in it"},
		{"probe.rack", FIELD(probe, rack), 0, 0, {}, "", true,
		 "the rack of this host; none: that of its own line among the peers"},
		{"probe.sample", FIELD(probe, sample), 1, 256, {}, "", true,
		 "peers of a round: chosen by chance, others each time, until all have had their turn"},
		{"probe.rate_pps", FIELD(probe, rate_pps), 0.1, 1000, {}, "probes/s", true, "most probes sent, to all peers together"},
		{"probe.timeout_ms", FIELD(probe, timeout_ms), 1, 2000, {}, "ms", true, "a probe that is not answered within it is lost"},
		{"probe.window_s", FIELD(probe, window_s), 10, 86400, {}, "s", true,
		 "how long a probe counts for what is said of its peer, of whose 64 newest it has to be one"},
		{"probe.max_racks", FIELD(probe, max_racks), 1, 1024, {}, "", true,
		 "most racks that are told apart; more are counted as \"other\""},
		{"probe.fabric_limit_us", FIELD(probe, fabric_limit_us), 1, 1e6, {}, "us", true,
		 "the network is slow if more than a tenth of the probes take longer in the fabric, there and back"},
		{"probe.host_limit_us", FIELD(probe, host_limit_us), 1, 1e6, {}, "us", true,
		 "hosts are slow if more than a tenth of the probes take longer in both of them together"},
		{"probe.answers_pps", FIELD(probe, answers_pps), 1, 100000, {}, "probes/s", true,
		 "most probes answered to one address (IPv6: to a /64), and to all of them ten times that"},
		{"probe.key_file", FIELD(probe, key_file), 0, 0, {}, "", true,
		 "file with a key, the same on all hosts: probes and answers are signed with it, others are dropped; up to four, one "
		 "a line: the first signs, all of them are taken"},
		{"probe.mesh", FIELD(probe, mesh), -no_limit, no_limit, {}, "", true,
		 "other swiftds, https://HOST:9464, one of each rack will do: the page shows what they say of their racks beside "
		 "this one's"},
		{"probe.mesh_token_file", FIELD(probe, mesh_token_file), 0, 0, {}, "", true,
		 "file with the token to show to them: Authorization: Bearer TOKEN"},
		{"probe.mesh_ca_file", FIELD(probe, mesh_ca_file), 0, 0, {}, "", true,
		 "file with the authorities (PEM) of their certificates; none: the system's"},
		{"otlp.endpoint", FIELD(otlp, endpoint), 0, 0, {}, "", false,
		 "OpenTelemetry collector, http://HOST:4318, that gets the metrics as OTLP in JSON; none: nothing is sent"},
		{"otlp.interval_s", FIELD(otlp, interval_s), 1, 3600, {}, "s", false, "time between two deliveries"},
		{"otlp.flow_log", FIELD(otlp, flow_log), 0, 0, {}, "", false,
		 "deliver a log record of each flow that has ended, with its addresses"},
		{"otlp.token_file", FIELD(otlp, token_file), 0, 0, {}, "", false,
		 "file with a token to show to the collector: Authorization: Bearer TOKEN"},
		{"otlp.ca_file", FIELD(otlp, ca_file), 0, 0, {}, "", false,
		 "file with the authorities (PEM) of an https:// collector; none: the system's"},
		{"log.level", FIELD(log, level), 0, 0, {"debug", "info", "warning", "error"}, "", true,
		 "least severity that is logged"},
		{"log.format", FIELD(log, format), 0, 0, {"auto", "journal", "text"}, "", false,
		 "text with times on standard error, or the journal's format; auto: what standard error is"},
	};

	return all;
}

#undef FIELD

bool is_number(const OptionValue &v)
{
	return std::holds_alternative<std::int64_t>(v) || std::holds_alternative<double>(v);
}

double number(const OptionValue &v)
{
	const auto *i = std::get_if<std::int64_t>(&v);

	return i ? static_cast<double>(*i) : std::get<double>(v);
}

std::string toml_string(std::string_view s)
{
	// A JSON string is a TOML string, but for its \/ that dump() does not use.
	return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_host_name(std::string_view name)
{
	if (name.starts_with("*."))
		name.remove_prefix(2);
	return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
		return std::isalnum(c) || c == '-' || c == '.' || c == '_';
	});
}

Error not_allowed(const Option &o, const OptionValue &v)
{
	return Error{fmt::format("{} = {}: allowed are {}", o.name, value_text(v), allowed_text(o))};
}

} // namespace

bool Config::operator==(const Config &other) const
{
	return std::all_of(table().begin(), table().end(),
			   [&](const Option &o) { return o.get(*this) == o.get(other); });
}

std::span<const Option> options()
{
	return table();
}

const Option *find_option(std::string_view name)
{
	for (const Option &o : table())
		if (o.name == name)
			return &o;
	return nullptr;
}

std::string value_text(const OptionValue &v)
{
	struct Text {
		std::string operator()(bool b) const { return b ? "true" : "false"; }
		std::string operator()(std::int64_t i) const { return std::to_string(i); }
		std::string operator()(double d) const
		{
			std::string s = fmt::format("{}", d);

			return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
		}
		std::string operator()(const std::string &s) const { return toml_string(s); }
		std::string operator()(const std::vector<std::string> &l) const
		{
			std::vector<std::string> parts;

			for (const std::string &s : l)
				parts.push_back(toml_string(s));
			return fmt::format("[{}]", fmt::join(parts, ", "));
		}
	};

	return std::visit(Text{}, v);
}

std::string allowed_text(const Option &o)
{
	const OptionValue v = o.get(Config{});

	if (is_number(v))
		return fmt::format("{}{} to {}", std::holds_alternative<std::int64_t>(v) ? "" : "decimals of ",
				   o.min, o.max);
	if (std::holds_alternative<bool>(v))
		return "true and false";
	if (std::holds_alternative<std::vector<std::string>>(v))
		return fmt::format("lists of up to {} strings, without blanks at their ends", most_list_items);
	return o.choices.empty() ? "strings" : fmt::format("{}", fmt::join(o.choices, ", "));
}

Result<void> set_option(Config &config, const Option &o, const OptionValue &value)
{
	const OptionValue like = o.get(Config{});
	OptionValue v = value;

	if (std::holds_alternative<double>(like) && std::holds_alternative<std::int64_t>(v))
		v = static_cast<double>(std::get<std::int64_t>(v));
	if (v.index() != like.index())
		return not_allowed(o, v);
	if (is_number(v) && !(number(v) >= o.min && number(v) <= o.max)) // nor NaN
		return not_allowed(o, v);
	if (const auto *s = std::get_if<std::string>(&v))
		if (!o.choices.empty() &&
		    std::find(o.choices.begin(), o.choices.end(), *s) == o.choices.end())
			return not_allowed(o, v);
	if (const auto *l = std::get_if<std::vector<std::string>>(&v))
		if (l->size() > most_list_items || std::any_of(l->begin(), l->end(), [](const std::string &s) {
			    return s.empty() || trim(s) != s;
		    }))
			return not_allowed(o, v);
	o.put(config, std::move(v));
	return {};
}

Result<void> set_option_text(Config &config, const Option &o, std::string_view text)
{
	const OptionValue like = o.get(Config{});
	const Error wrong{fmt::format("{} = {}: allowed are {}", o.name,
				      text.empty() ? "(empty)" : text, allowed_text(o))};

	if (std::holds_alternative<bool>(like)) {
		if (text != "true" && text != "false")
			return wrong;
		return set_option(config, o, text == "true");
	}
	if (std::holds_alternative<std::int64_t>(like)) {
		const auto v = parse_int(o.name, text, static_cast<std::int64_t>(o.min),
					 static_cast<std::int64_t>(o.max));

		if (!v)
			return wrong;
		return set_option(config, o, *v);
	}
	if (std::holds_alternative<double>(like)) {
		const auto v = parse_decimal(o.name, text, o.min, o.max);

		if (!v)
			return wrong;
		return set_option(config, o, *v);
	}
	if (std::holds_alternative<std::string>(like))
		return set_option(config, o, std::string(text));
	return set_option(config, o,
			  text.empty() ? std::vector<std::string>{} : split(text, ','));
}

Result<ListenAddress> parse_listen(std::string_view option, std::string_view text)
{
	const auto colon = text.rfind(':');
	const Error wrong{fmt::format("{} = {}: allowed are ADDRESS:PORT and [ADDRESS]:PORT, "
				      "addresses in numbers",
				      option, toml_string(text))};
	ListenAddress l;

	if (colon == std::string_view::npos)
		return wrong;
	std::string_view host = text.substr(0, colon);
	const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';

	if (brackets)
		host = host.substr(1, host.size() - 2);
	const auto address = Address::parse(host);
	const auto port = parse_int("port", text.substr(colon + 1), 0, 65535);

	if (!address || !port || brackets != (host.find(':') != std::string_view::npos))
		return wrong;
	l.host = host;
	l.port = static_cast<std::uint16_t>(*port);
	l.v6 = brackets;
	l.loopback = address->v6 ? *address == *Address::parse("::1") : address->bytes[0] == 127;
	return l;
}

namespace {

Result<void> check_probe(const Config::Probe &probe)
{
	if (probe.listen.size() > most_listens)
		return Error{fmt::format("probe.listen has {} addresses: allowed are up to {}", probe.listen.size(), most_listens)};
	for (const std::string &text : probe.listen)
		RETURN_IF_ERROR(parse_listen("probe.listen", text));
	for (const std::string &text : probe.peers)
		RETURN_IF_ERROR(parse_peer(fmt::format("probe.peers = {}", toml_string(text)), text));
	for (const auto &[option, path] : {std::pair("probe.peers_file", &probe.peers_file), {"probe.key_file", &probe.key_file}})
		if (!path->empty() && (*path)[0] != '/')
			return Error{fmt::format("{} = {}: allowed are absolute paths", option, toml_string(*path))};
	if (!probe.rack.empty() && !is_rack(probe.rack))
		return Error{fmt::format("probe.rack = {}: allowed are up to 64 letters, digits and - _ . / :, but for \"other\"",
					 toml_string(probe.rack))};
	for (const std::string &url : probe.mesh) {
		RETURN_IF_ERROR(check_url("probe.mesh", url));
		if (!probe.mesh_token_file.empty() && !url.starts_with("https://") && !is_loopback_url(url))
			return Error{fmt::format("probe.mesh_token_file: {} of probe.mesh has to be an https:// URL, or the token would be sent "
						 "in clear",
						 url)};
	}
	// Two probes to one peer are that far apart, and the second tells how long the answer to the first took.
	if (static_cast<double>(probe.sample) / probe.rate_pps > longest_gap_s)
		return Error{fmt::format("probe.sample = {} with probe.rate_pps = {}: a peer would be probed every {:.0f} s of its "
					 "round; allowed is up to {:.0f} s",
					 probe.sample, probe.rate_pps, static_cast<double>(probe.sample) / probe.rate_pps,
					 longest_gap_s)};
	return {};
}

} // namespace

Result<void> check_config(const Config &config)
{
	bool elsewhere = false;

	if (config.http.listen.size() > most_listens)
		return Error{fmt::format("http.listen has {} addresses: allowed are up to {}",
					 config.http.listen.size(), most_listens)};
	for (const std::string &text : config.http.listen) {
		auto l = parse_listen("http.listen", text);

		if (!l)
			return l.error();
		elsewhere |= !l->loopback;
	}
	for (const std::string &text : config.collect.prefixes)
		if (auto p = Prefix::parse(text); !p)
			return Error{fmt::format("collect.prefixes = {}: allowed are prefixes such as "
						 "10.0.0.0/8 and fd00::/16",
						 toml_string(text))};
	if (config.collect.ccs.empty())
		return Error{"collect.ccs is empty: allowed are names of congestion controls, and \"*\" for all"};
	for (const std::string &text : config.collect.ccs)
		if (text.size() > 15)
			return Error{fmt::format("collect.ccs = {}: allowed are names of up to 15 letters",
						 toml_string(text))};
	for (const std::string &text : config.clocks.devices)
		if (text.size() > 15 || text.find('/') != std::string::npos)
			return Error{fmt::format("clocks.devices = {}: allowed are names of interfaces",
						 toml_string(text))};
	if (!config.tune.prefix.empty()) {
		if (!Prefix::parse(config.tune.prefix))
			return Error{fmt::format("tune.prefix = {}: allowed are prefixes such as 10.0.0.0/8 and "
						 "fd00::/16",
						 toml_string(config.tune.prefix))};
		if (config.tune.knob == "module")
			return Error{"tune.prefix: the module has one target for all destinations; allowed with "
				     "tune.knob = \"bpf_swift\" or \"bpf_swift_v0\""};
	}
	if (config.tune.min_us >= config.tune.max_us)
		return Error{fmt::format("tune.min_us = {}: allowed are values below tune.max_us = {}",
					 config.tune.min_us, config.tune.max_us)};
	const auto collected = [&](std::string_view cc) {
		return std::find(config.collect.ccs.begin(), config.collect.ccs.end(), cc) !=
		       config.collect.ccs.end();
	};

	if (config.tune.enabled && !collected("*") && !collected(config.tune.cc()))
		return Error{fmt::format("tune.enabled with tune.knob = \"{}\": collect.ccs has to contain \"{}\" "
					 "or \"*\"",
					 config.tune.knob, config.tune.cc())};
	if (!config.policy.file.empty() && config.policy.file[0] != '/')
		return Error{fmt::format("policy.file = {}: allowed are absolute paths", toml_string(config.policy.file))};
	if (!config.policy.file.empty() && config.tune.enabled && config.tune.apply)
		return Error{"policy.file with tune.apply = true: both would set targets; allowed is one of them"};
	RETURN_IF_ERROR(check_probe(config.probe));
	if (!config.otlp.endpoint.empty())
		RETURN_IF_ERROR(check_url("otlp.endpoint", config.otlp.endpoint));
	if (!config.otlp.token_file.empty() && !config.otlp.endpoint.starts_with("https://") && !is_loopback_url(config.otlp.endpoint))
		return Error{"otlp.token_file: otlp.endpoint has to be an https:// URL, or the token would be sent in clear"};
	if (config.http.tls_certificate.empty() != config.http.tls_key.empty())
		return Error{"http.tls_certificate and http.tls_key: allowed are both or neither"};
	if (elsewhere && config.http.token_file.empty() && !config.http.allow_anonymous)
		return Error{"http.listen is open to other hosts: set http.token_file, or "
			     "http.allow_anonymous = true"};
	if (elsewhere && !config.http.token_file.empty() && config.http.tls_certificate.empty() &&
	    !config.http.token_in_clear)
		return Error{"http.listen is open to other hosts, whose token (http.token_file) anybody on the way "
			     "could read: set http.tls_certificate and http.tls_key, or http.token_in_clear = true"};
	for (const std::string &text : config.http.names)
		if (!is_host_name(text))
			return Error{fmt::format("http.names = {}: allowed are names of hosts without a port, and "
						 "\"*.\" before one",
						 toml_string(text))};
	return {};
}

std::string sample_toml()
{
	std::string out = "# swiftd's options, all at their defaults. What can be changed by a reload "
			  "(SIGHUP) says so.\n";
	std::string_view section;

	for (const Option &o : table()) {
		const auto dot = o.name.find('.');
		const OptionValue v = o.get(Config{});

		if (o.name.substr(0, dot) != section) {
			section = o.name.substr(0, dot);
			out += fmt::format("\n[{}]\n", section);
		}
		out += fmt::format("# {}.{}{}\n{} = {}\n", o.help,
				   is_number(v) || !o.choices.empty() ?
					   fmt::format(" Allowed: {}.", allowed_text(o)) :
					   "",
				   o.reloadable ? " Reloadable." : "", o.name.substr(dot + 1),
				   value_text(v));
	}
	return out;
}

std::string options_markdown()
{
	std::string out = "| option | default | allowed | unit | reload | meaning |\n"
			  "|---|---|---|---|---|---|\n";

	for (const Option &o : table())
		out += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", o.name,
				   value_text(o.get(Config{})), allowed_text(o), o.unit,
				   o.reloadable ? "yes" : "no", o.help);
	return out;
}

nlohmann::json options_json(const Config &config)
{
	auto all = nlohmann::json::array();
	const auto json = [](const OptionValue &v) {
		return std::visit([](const auto &x) { return nlohmann::json(x); }, v);
	};

	for (const Option &o : table()) {
		const OptionValue v = o.get(Config{});
		nlohmann::json j = {{"name", o.name},	      {"value", json(o.get(config))},
				    {"default", json(v)},     {"unit", o.unit},
				    {"reloadable", o.reloadable}, {"help", o.help}};

		if (is_number(v)) {
			j["min"] = o.min;
			j["max"] = o.max;
		}
		// Where the keys to this service lie is nobody's business.
		if ((o.name == "http.token_file" || o.name == "http.tls_key" || o.name == "otlp.token_file" ||
		     o.name == "probe.key_file" || o.name == "probe.mesh_token_file") &&
		    o.get(config) != v)
			j["value"] = "set";
		all.push_back(std::move(j));
	}
	return all;
}

} // namespace swift
