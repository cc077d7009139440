// SPDX-License-Identifier: MIT
#include "policy_place.h"

#include <fmt/format.h>

#include <algorithm>

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
		ASSIGN_OR_RETURN(auto v, read());
		return std::move(v.targets);
	}

	Result<int> dscp() const override
	{
		ASSIGN_OR_RETURN(const auto text, read_sysctl(files_, sysctl("dscp")));
		ASSIGN_OR_RETURN(const auto number, parse_int("dscp", text, -1, 63));
		return static_cast<int>(number);
	}

	Result<void> write(const PlaceValues &values) override
	{
		ASSIGN_OR_RETURN(const auto before, read());
		TunableValues changes;
		TunableValues old;

		for (const std::string &t : policy_tunables()) {
			old.emplace_back(t, before.targets.at(t));
			if (before.targets.at(t) != values.targets.at(t))
				changes.emplace_back(t, values.targets.at(t));
		}
		return write_tunables(files_, changes, old);
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
		ASSIGN_OR_RETURN(const auto settings, variants_.get(variant_));
		ASSIGN_OR_RETURN(const BpfValues *values, settings.values_of(prefix_));

		out.there = prefix_.empty() || values != &settings.values;
		if (!out.there)
			return out;
		ASSIGN_OR_RETURN(out.targets, targets_of(*settings.law, *values));
		return out;
	}

	Result<Targets> in_effect() const override
	{
		ASSIGN_OR_RETURN(const auto settings, variants_.get(variant_));
		ASSIGN_OR_RETURN(const BpfValues *values, settings.values_of(prefix_));
		return targets_of(*settings.law, *values);
	}

	Result<int> dscp() const override
	{
		ASSIGN_OR_RETURN(const auto settings, variants_.get(variant_));
		ASSIGN_OR_RETURN(const BpfValues *values, settings.values_of(prefix_));

		for (std::size_t i = 0; i < settings.law->tunables.size(); i++)
			if (settings.law->tunables[i].name == "dscp")
				return static_cast<int>(settings.law->tunables[i].number((*values)[i]));
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
		return variants_.set(request, patience_s_);
	}

private:
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
