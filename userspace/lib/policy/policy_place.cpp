// SPDX-License-Identifier: MIT
#include "policy_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "target_knob.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

class SysctlPlace final : public PolicyPlace
{
public:
	SysctlPlace(Files &files, const std::string &netns)
		: files_(files), key_(sysctl_knob(files, netns)->key())
	{
	}

	std::string name() const override { return "net.ipv4.tcp_swift"; }
	std::string key() const override { return key_; }

	Result<PlaceValues> read() const override
	{
		PlaceValues v;

		if (!module_loaded(files_))
			return Error{"the module tcp_swift is not loaded"};
		for (const std::string &t : policy_tunables()) {
			ASSIGN_OR_RETURN(v.targets[t], read_sysctl(files_, sysctl(t)));
		}
		return v;
	}

	Result<Targets> in_effect() const override
	{
		auto v = read();

		return v ? Result<Targets>(std::move(v->targets)) : v.error();
	}

	Result<int> dscp() const override
	{
		auto text = read_sysctl(files_, sysctl("dscp"));
		auto number = text ? parse_int("dscp", *text, -1, 63) : Result<std::int64_t>(text.error());

		return number ? Result<int>(static_cast<int>(*number)) : number.error();
	}

	Result<void> write(const PlaceValues &values) override
	{
		ASSIGN_OR_RETURN(auto before, read());

		for (const std::string &t : policy_tunables()) {
			if (before.targets.at(t) == values.targets.at(t))
				continue;
			auto ok = write_sysctl(files_, sysctl(t), values.targets.at(t));

			if (ok)
				continue;
			for (const std::string &old : policy_tunables())
				(void)!write_sysctl(files_, sysctl(old), before.targets.at(old));
			return ok;
		}
		return {};
	}

private:
	static std::string sysctl(const std::string &tunable) { return std::string(sysctl_prefix) + tunable; }

	Files &files_;
	std::string key_;
};

class BpfPlace final : public PolicyPlace
{
public:
	BpfPlace(BpfVariants &variants, std::string variant, std::string prefix, double patience_s)
		: variants_(variants), variant_(std::move(variant)), prefix_(std::move(prefix)),
		  patience_s_(patience_s), key_(bpf_knob(variants, variant_, prefix_, 0)->key())
	{
	}

	std::string name() const override { return prefix_.empty() ? variant_ : variant_ + " " + prefix_; }
	std::string key() const override { return key_; }

	Result<PlaceValues> read() const override
	{
		PlaceValues out;
		ASSIGN_OR_RETURN(auto settings, variants_.get(variant_));
		const BpfValues *values = values_of(settings);

		out.there = prefix_.empty() || values != &settings.values;
		if (!out.there)
			return out;
		ASSIGN_OR_RETURN(auto targets, targets_of(*settings.law, *values));
		out.targets = std::move(targets);
		return out;
	}

	Result<Targets> in_effect() const override
	{
		auto settings = variants_.get(variant_);

		return settings ? targets_of(*settings->law, *values_of(*settings)) : settings.error();
	}

	Result<int> dscp() const override
	{
		ASSIGN_OR_RETURN(auto settings, variants_.get(variant_));
		const BpfValues &values = *values_of(settings);

		for (std::size_t i = 0; i < settings.law->tunables.size(); i++)
			if (settings.law->tunables[i].name == "dscp")
				return static_cast<int>(settings.law->tunables[i].number(values[i]));
		return Error{variant_ + " gives its flows no class"};
	}

	Result<void> write(const PlaceValues &values) override
	{
		BpfSetRequest request;

		request.name = variant_;
		request.prefix = prefix_;
		if (values.there) {
			for (const std::string &t : policy_tunables())
				request.set.push_back(t + "=" + values.targets.at(t));
		} else {
			ASSIGN_OR_RETURN(auto now, read());

			if (!now.there)
				return {};
			request.erase = true;
		}

		using Clock = std::chrono::steady_clock;
		const auto until = Clock::now() + std::chrono::duration<double>(patience_s_);

		for (;;) {
			const BpfReport report = variants_.set(request);

			if (!report.error)
				return {};
			if (report.error->code != EWOULDBLOCK || Clock::now() >= until)
				return *report.error;
			std::this_thread::sleep_for(lock_pause);
		}
	}

private:
	// Those of the profile, or of all other flows.
	[[nodiscard]] const BpfValues *values_of(const BpfSettings &settings) const
	{
		const auto wanted = prefix_.empty() ? Result<BpfPrefix>(Error{}) : BpfPrefix::parse(prefix_);

		if (wanted)
			for (const auto &[prefix, own] : settings.profiles)
				if (prefix == *wanted)
					return &own;
		return &settings.values;
	}

	Result<Targets> targets_of(const BpfLaw &law, const BpfValues &values) const
	{
		Targets targets;

		for (std::size_t i = 0; i < law.tunables.size(); i++)
			if (const std::string name(law.tunables[i].name);
			    std::find(policy_tunables().begin(), policy_tunables().end(), name) !=
			    policy_tunables().end())
				targets[name] = law.tunables[i].text(values[i]);
		if (targets.size() != policy_tunables().size())
			return Error{variant_ + " has not the targets of a policy", variant_,
				     "bpf_swift or bpf_swift_v0"};
		return targets;
	}

	static constexpr auto lock_pause = std::chrono::milliseconds(10);

	BpfVariants &variants_;
	std::string variant_;
	std::string prefix_;
	double patience_s_;
	std::string key_;
};

} // namespace

std::string PlaceValues::text() const
{
	std::string all;

	if (!there)
		return "no profile";
	for (const std::string &t : policy_tunables())
		if (const auto at = targets.find(t); at != targets.end())
			all += fmt::format("{}{}={}", all.empty() ? "" : " ", t, at->second);
	return all;
}

MakePlace real_places(Files &files, BpfVariants &variants, std::string netns, double patience_s)
{
	return [&files, &variants, netns = std::move(netns),
		patience_s](const std::string &of,
			    const std::string &prefix) -> std::unique_ptr<PolicyPlace> {
		if (of == "module")
			return std::make_unique<SysctlPlace>(files, netns);
		return std::make_unique<BpfPlace>(variants, of, prefix, patience_s);
	};
}

} // namespace swift
