// SPDX-License-Identifier: MIT
// swiftctl: parse, run the verb, leave. Nothing else belongs here.
#include <exception>

#include "cli.h"
#include "say.h"

namespace {

struct Run {
	int operator()(const swift::Leave &leave) const
	{
		if (leave.status != swift::exit_ok)
			return leave.status;
		return swift::print(leave.text) ? swift::exit_ok : swift::exit_failed;
	}
	int operator()(const swift::FlowsOptions &o) const { return swift::run_flows(o); }
	int operator()(const swift::EnableOptions &o) const { return swift::run_enable(o); }
	int operator()(const swift::DisableOptions &o) const { return swift::run_disable(o); }
	int operator()(const swift::DoctorOptions &o) const { return swift::run_doctor(o); }
	int operator()(const swift::ClockOptions &o) const { return swift::run_clock(o); }
	int operator()(const swift::BpfOptions &o) const { return swift::run_bpf(o); }
	int operator()(const swift::DelaysOptions &o) const { return swift::run_delays(o); }
	int operator()(const swift::AbOptions &o) const { return swift::run_ab(o); }
	int operator()(const swift::ReportOptions &o) const { return swift::run_report(o); }
	int operator()(const swift::TopOptions &o) const { return swift::run_top(o); }
	int operator()(const swift::TuneVerbOptions &o) const { return swift::run_tune(o); }
	int operator()(const swift::ProbeOptions &o) const { return swift::run_probe(o); }
};

} // namespace

int main(int argc, char **argv)
{
	try {
		return std::visit(Run{}, swift::parse_command_line(argc, argv));
	} catch (const std::exception &e) {
		return swift::fail("", e.what());
	}
}
