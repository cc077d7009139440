// SPDX-License-Identifier: MIT
#include "target_knob.h"

#include <fmt/format.h>

#include <algorithm>

#include "flow.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

TunableValues assignments(const TargetSettings &s)
{
	return {{"base_target_ns", std::to_string(s.base_target_ns)},
		{"hop_target_ns", std::to_string(s.hop_target_ns)},
		// Last: until then the values above are not what flows are steered by.
		{"target_policy", s.policy}};
}

class SysctlKnob final : public TargetKnob {
public:
	SysctlKnob(Files &files, std::string netns) : files_(files), netns_(std::move(netns)) {}

	std::string name() const override { return "net.ipv4.tcp_swift"; }
	std::string cc() const override { return std::string(cc_name); }
	std::string key() const override { return "sysctl-" + netns_; }

	Result<TargetSettings> read() const override
	{
		TargetSettings s;

		for (const auto &[sysctl, value] :
		     {std::pair<const char *, std::uint32_t *>{"base_target_ns", &s.base_target_ns},
		      {"hop_target_ns", &s.hop_target_ns},
		      {"rtt_epsilon_ns", &s.rtt_epsilon_ns}}) {
			const std::string key = std::string(sysctl_prefix) + sysctl;
			ASSIGN_OR_RETURN(auto text, read_sysctl(files_, key));
			ASSIGN_OR_RETURN(auto number, parse_int(key, text, 0, 0xffffffffLL));

			*value = static_cast<std::uint32_t>(number);
		}
		ASSIGN_OR_RETURN(s.policy, read_sysctl(files_, std::string(sysctl_prefix) + "target_policy"));
		return s;
	}

	Result<void> write(const TargetSettings &settings) override
	{
		ASSIGN_OR_RETURN(const auto before, read());
		return write_tunables(files_, assignments(settings), assignments(before));
	}

	std::string command(const TargetSettings &settings) const override
	{
		std::string text = "sysctl -w";

		for (const auto &[sysctl, value] : assignments(settings))
			text += " " + std::string(sysctl_prefix) + sysctl + "=" + value;
		return text;
	}

private:
	Files &files_;
	std::string netns_;
};

class BpfKnob final : public TargetKnob {
public:
	BpfKnob(BpfVariants &variants, std::string variant, std::string prefix, double patience_s)
		: variants_(variants), variant_(std::move(variant)), prefix_(std::move(prefix)), patience_s_(patience_s)
	{
	}

	std::string name() const override
	{
		return prefix_.empty() ? variant_ : variant_ + " " + prefix_;
	}
	std::string cc() const override { return variant_; }
	std::string key() const override
	{
		std::string prefix = prefix_;

		std::replace(prefix.begin(), prefix.end(), '/', '-');
		return prefix.empty() ? variant_ : variant_ + "-" + prefix;
	}

	Result<TargetSettings> read() const override
	{
		ASSIGN_OR_RETURN(const auto settings, variants_.get(variant_));
		ASSIGN_OR_RETURN(const BpfValues *values, settings.values_of(prefix_));
		TargetSettings s;

		for (std::size_t i = 0; i < settings.law->tunables.size(); i++) {
			const auto &t = settings.law->tunables[i];

			if (t.name == "base_target_ns")
				s.base_target_ns = (*values)[i];
			else if (t.name == "hop_target_ns")
				s.hop_target_ns = (*values)[i];
			else if (t.name == "rtt_epsilon_ns")
				s.rtt_epsilon_ns = (*values)[i];
			else if (t.name == "target_policy")
				s.policy = t.text((*values)[i]);
		}
		if (s.policy.empty())
			return Error{variant_ + " has no fabric target", variant_,
				     "bpf_swift or bpf_swift_v0"};
		return s;
	}

	Result<void> write(const TargetSettings &settings) override
	{
		BpfSetRequest request;

		request.name = variant_;
		request.prefix = prefix_;
		for (const auto &[tunable, value] : assignments(settings))
			request.set.push_back(tunable + "=" + value);
		return variants_.set(request, patience_s_);
	}

	std::string command(const TargetSettings &settings) const override
	{
		std::string text = "swiftctl bpf set " + variant_;

		if (!prefix_.empty())
			text += " --prefix " + prefix_;
		for (const auto &[tunable, value] : assignments(settings))
			text += " " + tunable + "=" + value;
		return text;
	}

private:
	BpfVariants &variants_;
	std::string variant_;
	std::string prefix_;
	double patience_s_;
};

} // namespace

Result<void> write_tunables(Files &files, const TunableValues &values, const TunableValues &old)
{
	for (const auto &[name, value] : values) {
		auto ok = write_sysctl(files, std::string(sysctl_prefix) + name, value);

		if (ok)
			continue;
		for (const auto &[before, was] : old)
			(void)!write_sysctl(files, std::string(sysctl_prefix) + before, was);
		return ok;
	}
	return {};
}

std::string TargetSettings::text() const
{
	return fmt::format("target_policy={} base_target_ns={} hop_target_ns={} rtt_epsilon_ns={}", policy,
			   base_target_ns, hop_target_ns, rtt_epsilon_ns);
}

std::unique_ptr<TargetKnob> sysctl_knob(Files &files, std::string netns)
{
	return std::make_unique<SysctlKnob>(files, std::move(netns));
}

std::unique_ptr<TargetKnob> bpf_knob(BpfVariants &variants, std::string name, std::string prefix,
				     double patience_s)
{
	return std::make_unique<BpfKnob>(variants, std::move(name), std::move(prefix), patience_s);
}

} // namespace swift
