// SPDX-License-Identifier: MIT
// `swiftctl bpf`: calls libswift and prints for people; the JSON is bpf_json.cpp's.
#include "bpf.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "clock_ns.h"
#include "say.h"
#include "sockets.h"
#include "telemetry.h"
#include "text.h"

namespace swift {

namespace {

BpfReport act(BpfVariants &variants, const BpfOptions &o)
{
	if (o.action == BpfOptions::Action::set)
		return variants.set({o.name, o.set, o.prefix, o.erase, o.dry_run});
	if (o.action == BpfOptions::Action::unload)
		return variants.unload(o.name, o.dry_run);

	const BpfLoadRequest request{o.name,	    o.object,	    o.set,   o.cgroup, !o.no_echo,
				     o.make_default, o.plain, o.dry_run};

	return o.action == BpfOptions::Action::load ? variants.load(request) : variants.swap(request);
}

// Options that are not for what is loaded or unloaded; "" if there is none.
std::string misplaced(const BpfOptions &o)
{
	const TelemetryRequest &t = o.telemetry;
	const bool of_telemetry = !t.prefixes.empty() || !t.v4_len.empty() || !t.v6_len.empty() ||
				  !t.max_flows.empty() || !t.max_prefixes.empty() || !t.tx_one_in.empty() ||
				  o.module_only;
	const bool of_variants = !o.set.empty() || !o.cgroup.empty() || o.no_echo || o.make_default || o.plain;

	if (o.name == telemetry_name && of_variants)
		return "--set, --cgroup, --no-echo, --default and --plain are for congestion controls, not for telemetry";
	if (o.name != telemetry_name && of_telemetry)
		return "--prefix, --v4-len, --v6-len, --flows, --prefixes, --tx and --module-only are for telemetry";
	return "";
}

BpfReport act_on_telemetry(BpfTelemetry &telemetry, const BpfOptions &o)
{
	if (o.action == BpfOptions::Action::unload)
		return telemetry.unload(o.module_only, o.dry_run);

	TelemetryRequest request = o.telemetry;

	request.file = o.object;
	request.dry_run = o.dry_run;
	return telemetry.load(request);
}

Result<int> finish(const BpfOptions &options, const BpfReport &report)
{
	if (report.error && report.usage)
		return usage_error(*report.error);
	if (options.json) {
		if (!print(bpf_report_json(report, options.name, options.dry_run)))
			return exit_failed;
	} else {
		std::string out;

		for (const std::string &step : report.steps)
			out += step + "\n";
		if (!print(out))
			return exit_failed;
		for (const std::string &text : report.notes)
			note(bpf_verb, text);
	}
	if (!report.error)
		return exit_ok;
	if (options.verbose && !report.verifier_log.empty())
		std::fputs(report.verifier_log.c_str(), stderr);

	const bool more = !options.verbose && !report.verifier_log.empty();

	return Error{report.error->text() + (more ? " (--verbose: all it said)" : "")};
}

Result<int> show_list(BpfVariants &variants, const BpfOptions &options)
{
	ASSIGN_OR_RETURN(auto listing, variants.list());

	if (options.json)
		return leave(bpf_list_json(listing));

	return leave(screen(bpf_table(listing.loaded, clock_ns(CLOCK_REALTIME)), bpf_notes(listing), false,
			    standard_output()));
}

Result<int> show_settings(BpfVariants &variants, const BpfOptions &options)
{
	ASSIGN_OR_RETURN(auto settings, variants.get(options.name));

	for (const std::string &name : options.set)
		if (std::none_of(settings.law->tunables.begin(), settings.law->tunables.end(),
				 [&](const BpfTunable &t) { return t.name == name; }))
			return usage_error(Error{"no such tunable of the law " + std::string(settings.law->name), name});
	if (options.json)
		return leave(bpf_settings_json(settings, options.name));

	std::string out = table_text(bpf_settings_table(settings, options.name, options.set), standard_output());

	if (options.set.empty())
		for (const std::string &line : bpf_profile_lines(settings))
			out += line + "\n";
	if (!print(out))
		return exit_failed;
	if (settings.differs)
		note(bpf_verb, "the programs' maps hold other values than were set: a killed `set`, or another "
			   "program; set them again");
	return exit_ok;
}

} // namespace

Table bpf_table(const std::vector<BpfStatus> &loaded, std::int64_t now)
{
	Table table;

	table.columns = {{"NAME"},	     {"LAW"},		   {"REGISTERED"}, {"FLOWS", true},
			 {"PROFILES", true}, {"PROGRAMS", true},   {"INSNS", true, 1},
			 {"VERIFIED", true, 2}, {"SINCE", true, 1}, {"CGROUP", false, 1}};
	for (const BpfStatus &s : loaded) {
		std::uint64_t insns = 0;
		std::uint64_t verified = 0;

		for (const BpfProgramStatus &p : s.programs) {
			insns += p.xlated_insns;
			verified += p.verified_insns;
		}
		const std::string registered = s.leftover ? "left by a killed loader" :
					       s.registration == "none" ? "no" :
					       s.is_default		    ? s.registration + ", default" :
									  s.registration;

		table.rows.push_back({{s.name},
				      {s.law.empty() ? "?" : s.law},
				      {registered, s.registration == "none" || s.leftover ? Colour::red : Colour::green},
				      {std::to_string(s.flows)},
				      {std::to_string(s.profiles)},
				      {std::to_string(s.programs.size())},
				      {std::to_string(insns)},
				      {std::to_string(verified)},
				      {s.since_ns ? span_text(std::max<std::int64_t>(now - s.since_ns, 0), false) : "?"},
				      {s.cgroups.empty() ? "-" : fmt::format("{}", fmt::join(s.cgroups, " "))}});
	}
	return table;
}

std::vector<std::string> bpf_notes(const BpfListing &listing)
{
	std::vector<std::string> notes;

	if (listing.loaded.empty())
		notes.emplace_back("none loaded");
	if (!listing.abilities.btf || !listing.abilities.struct_ops)
		notes.emplace_back("this kernel cannot run congestion controls in BPF: no BTF, or no struct_ops");
	if (listing.telemetry && listing.telemetry->leftover) {
		notes.emplace_back("swiftctl bpf unload telemetry removes what a killed loader left of it");
	} else if (listing.telemetry) {
		const TelemetryStatus &t = *listing.telemetry;
		std::vector<std::string> watched = t.watched;

		if (t.module_attached)
			watched.insert(watched.begin(), "the module");
		notes.push_back(fmt::format("telemetry is loaded and watches {}; up to {} flows, {} prefixes{}",
					    watched.empty() ? "nothing yet" : fmt::format("{}", fmt::join(watched, ", ")),
					    t.max_flows, t.max_prefixes,
					    t.tx_one_in ? fmt::format(", tx of one packet in {}{}", t.tx_one_in,
								      t.tx_nic_attached ? "" : ", without the NIC") :
							  ""));
	}
	for (const BpfStatus &s : listing.loaded) {
		std::string text;

		for (const auto &[counter, n] : s.stamps)
			if (n)
				text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counter, n);
		if (!text.empty())
			notes.push_back(fmt::format("{} counts packets' receive stamps: {}", s.name, text));
	}
	if (!listing.loadable.empty())
		notes.push_back(fmt::format("can be loaded: {}", fmt::join(listing.loadable, ", ")));
	for (const BpfStatus &s : listing.loaded)
		if (s.leftover)
			notes.push_back(fmt::format("swiftctl bpf unload {} removes what is left of it", s.name));
		else if (!s.pinned)
			notes.push_back(fmt::format("{} is loaded and its flows are shown, but its pins are not to be "
						    "seen from here: another mount namespace has them, or somebody "
						    "else loaded it (struct_ops map id {})",
						    s.name, s.ops->id));
		else if (s.registration == "none")
			notes.push_back(fmt::format("{} is not registered any more: unload it and load it again",
						    s.name));
	return notes;
}

Table bpf_settings_table(const BpfSettings &settings, const std::string &variant,
			 const std::vector<std::string> &names)
{
	Table table;
	const BpfValues defaults = settings.law->defaults(variant);

	table.columns = {{"TUNABLE"}, {"VALUE", true}, {"DEFAULT", true, 2}, {"ALLOWED", false, 1},
			 {"MEANING", false, 3}};
	for (std::size_t i = 0; i < settings.values.size(); i++) {
		const BpfTunable &t = settings.law->tunables[i];

		if (!names.empty() && std::find(names.begin(), names.end(), t.name) == names.end())
			continue;
		table.rows.push_back({{std::string(t.name)},
				      {t.text(settings.values[i]),
				       settings.values[i] != defaults[i] ? Colour::bold : Colour::none},
				      {t.text(defaults[i])},
				      {t.range()},
				      {std::string(t.meaning)}});
	}
	return table;
}

std::vector<std::string> bpf_profile_lines(const BpfSettings &settings)
{
	std::vector<std::string> lines;

	for (const auto &[prefix, values] : settings.profiles) {
		std::string line = prefix.text() + " ";

		for (std::size_t i = 0; i < values.size(); i++)
			if (values[i] != settings.values[i])
				line += fmt::format(" {}={}", settings.law->tunables[i].name,
						    settings.law->tunables[i].text(values[i]));
		lines.push_back(line.back() == ' ' ? line + " as all others" : line);
	}
	return lines;
}

Result<int> run_bpf(const BpfOptions &options)
{
	const auto system = real_system();
	const auto host = real_bpf_host();
	const auto sockets = real_sockets();
	BpfVariants variants(*system, *sockets, *host);

	switch (options.action) {
	case BpfOptions::Action::list:
		return show_list(variants, options);
	case BpfOptions::Action::get:
		return show_settings(variants, options);
	case BpfOptions::Action::load:
	case BpfOptions::Action::unload:
		if (const std::string wrong = misplaced(options); !wrong.empty())
			return usage_error(wrong);
		if (options.name == telemetry_name) {
			BpfTelemetry telemetry(*system, *host);

			return finish(options, act_on_telemetry(telemetry, options));
		}
		[[fallthrough]];
	default:
		return finish(options, act(variants, options));
	}
}

} // namespace swift
