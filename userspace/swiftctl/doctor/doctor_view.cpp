// SPDX-License-Identifier: MIT
// What `swiftctl doctor` prints.
#include <fmt/format.h>

#include <algorithm>

#include "clock.h"
#include "doctor.h"
#include "json.h"
#include "printable.h"
#include "say.h"

namespace swift {

namespace {

Colour severity_colour(Severity s)
{
	return s == Severity::ok ? Colour::green : s == Severity::warn ? Colour::yellow : Colour::red;
}

} // namespace

std::string doctor_text(const std::vector<Finding> &findings, const Terminal &terminal)
{
	std::string out;
	std::size_t width = 0;

	for (const Finding &f : findings)
		width = std::max(width, f.check.size());
	for (const Finding &f : findings) {
		const std::string name(severity_name(f.severity));
		const std::string margin(8 + width, ' ');

		out += terminal.paint(name, severity_colour(f.severity)) + std::string(6 - name.size(), ' ');
		out += fmt::format("{:<{}}  {}\n", printable(f.check), width, printable(f.seen));
		if (!f.why.empty())
			out += margin + printable(f.why) + "\n";
		if (!f.fix.empty())
			out += margin + terminal.paint("fix: " + printable(f.fix), Colour::bold) + "\n";
	}
	return out + fmt::format("{} ok, {} warn, {} fail\n", count(findings, Severity::ok),
				 count(findings, Severity::warn), count(findings, Severity::fail));
}

std::string doctor_json(const std::vector<Finding> &findings)
{
	Json j;

	j["schema"] = 1;
	j["findings"] = Json::array();
	for (const Finding &f : findings)
		j["findings"].push_back({{"severity", severity_name(f.severity)},
					 {"check", f.check},
					 {"seen", f.seen},
					 {"why", f.why},
					 {"fix", f.fix}});
	for (const Severity s : {Severity::ok, Severity::warn, Severity::fail})
		j["summary"][std::string(severity_name(s))] = count(findings, s);
	return json_text(j);
}

std::string_view severity_name(Severity s)
{
	return s == Severity::ok ? "ok" : s == Severity::warn ? "warn" : "fail";
}

std::size_t count(const std::vector<Finding> &findings, Severity s)
{
	return static_cast<std::size_t>(std::count_if(
		findings.begin(), findings.end(), [&](const Finding &f) { return f.severity == s; }));
}

Result<int> run_doctor(const DoctorOptions &options)
{
	const auto system = real_system(options.root);
	const auto nics = real_nics(options.root);
	const auto sockets = real_sockets(options.root);
	ASSIGN_OR_RETURN(auto findings,
			 as_usage(examine({*system, *nics, *sockets}, options, bpf_clocks_now(host_now().monotonic_ns))));

	if (!print(options.json ? doctor_json(findings) : doctor_text(findings, standard_output())))
		return exit_failed;
	return count(findings, Severity::fail) ? exit_failed : exit_ok;
}

} // namespace swift
