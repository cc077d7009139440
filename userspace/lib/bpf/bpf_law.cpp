// SPDX-License-Identifier: MIT
#include "bpf_law.h"

#include <algorithm>
#include <cstring>

#include "core/gcn.h"
#include "core/timely.h"
#include "flow.h"
#include "maps.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

// What the shells around the laws add, as the last rows of their tables.
constexpr BpfTunable max_rtt{"max_rtt_ns", 5000000, 1000, 2147483647,
			     "handshake RTT above which a flow runs Reno instead"};
constexpr BpfTunable dscp{"dscp", -1, -1, 63, "DSCP of its packets; -1 = leave it"};

#define SWIFT_X(name, def, lo, hi, doc) BpfTunable{#name, def, lo, hi, doc},
constexpr std::array swift_table = {SWIFT_TUNABLES(SWIFT_X) max_rtt, dscp};
constexpr std::array timely_table = {TIMELY_TUNABLES(SWIFT_X) dscp};
constexpr std::array gcn_table = {GCN_TUNABLES(SWIFT_X) dscp};
#undef SWIFT_X

static_assert(SWIFT_TARGET_BASE_RTT_PLUS + 1 == target_policy_words.size());

// The core's structs of tunables are one u32 a row of their tables; what the shell adds
// comes after them.
template <typename Profile, typename Tunables, auto prepare>
const char *convert(std::byte *out, const std::uint32_t *values)
{
	const std::uint32_t *of_shell = values + sizeof(Tunables) / sizeof(std::uint32_t);
	Tunables t;
	Profile p{}; // what is padding in it goes to the kernel too

	std::memcpy(&t, values, sizeof(t));
	if (const char *wrong = prepare(&p.law, &t))
		return wrong;
	if constexpr (requires { p.max_rtt_ns; }) {
		if (!max_rtt.allows(*of_shell))
			return max_rtt.name.data();
		p.max_rtt_ns = *of_shell++;
	}
	if (!dscp.allows(*of_shell))
		return dscp.name.data();
	p.dscp = static_cast<std::int32_t>(*of_shell);
	std::memcpy(out, &p, sizeof(p));
	return nullptr;
}

static_assert(sizeof(swift_tunables) == (swift_table.size() - 2) * sizeof(std::uint32_t));
static_assert(sizeof(timely_tunables) == (timely_table.size() - 1) * sizeof(std::uint32_t));
static_assert(sizeof(gcn_tunables) == (gcn_table.size() - 1) * sizeof(std::uint32_t));

const std::array<BpfLaw, 3> laws = {
	BpfLaw{"swift", "swift_params", "swift_profiles", sizeof(bpf_swift_profile), swift_table,
	       convert<bpf_swift_profile, swift_tunables, swift_params_prepare>},
	BpfLaw{"timely", "timely_params", "", sizeof(bpf_timely_profile), timely_table,
	       convert<bpf_timely_profile, timely_tunables, timely_params_prepare>},
	BpfLaw{"gcn", "gcn_params", "", sizeof(bpf_gcn_profile), gcn_table,
	       convert<bpf_gcn_profile, gcn_tunables, gcn_params_prepare>}};

const BpfTunable *find(const BpfLaw &law, std::string_view name)
{
	for (const BpfTunable &t : law.tunables)
		if (t.name == name)
			return &t;
	return nullptr;
}

} // namespace

std::int64_t BpfTunable::number(std::uint32_t value) const
{
	return min < 0 ? std::int64_t{static_cast<std::int32_t>(value)} : std::int64_t{value};
}

bool BpfTunable::allows(std::uint32_t value) const
{
	return number(value) >= min && number(value) <= max;
}

std::string BpfTunable::text(std::uint32_t value) const
{
	if (name == "target_policy" && value < target_policy_words.size())
		return std::string(target_policy_words[value]);
	return std::to_string(number(value));
}

std::string BpfTunable::range() const
{
	if (name == "target_policy")
		return "static, base_rtt or base_rtt_plus";
	return std::to_string(min) + " to " + std::to_string(max);
}

BpfValues BpfLaw::defaults(std::string_view variant) const
{
	BpfValues values;

	for (const BpfTunable &t : tunables)
		values.push_back(t.name == "split" && variant.ends_with("_v0") ?
					 0 :
					 static_cast<std::uint32_t>(t.fallback));
	return values;
}

Result<void> BpfLaw::assign(BpfValues &values, std::string_view assignment) const
{
	const auto equals = assignment.find('=');

	if (equals == std::string_view::npos)
		return Error{"not an assignment", std::string(assignment), "tunable=value"};

	const std::string_view key = assignment.substr(0, equals);
	const std::string_view value = assignment.substr(equals + 1);
	const BpfTunable *t = find(*this, key);

	if (!t) {
		std::string names;

		for (const BpfTunable &each : tunables)
			names += (names.empty() ? "" : ", ") + std::string(each.name);
		return Error{"no such tunable of the law " + std::string(name), std::string(key), names};
	}

	auto &slot = values[static_cast<std::size_t>(t - tunables.data())];

	if (t->name == "target_policy") {
		const auto word = std::find(target_policy_words.begin(), target_policy_words.end(), value);

		if (word == target_policy_words.end())
			return Error{std::string(key), std::string(value), t->range()};
		slot = static_cast<std::uint32_t>(word - target_policy_words.begin());
		return {};
	}

	ASSIGN_OR_RETURN(auto number, parse_int(key, value, t->min, t->max));
	slot = static_cast<std::uint32_t>(number);
	return {};
}

Result<std::vector<std::byte>> BpfLaw::prepare(const BpfValues &values) const
{
	std::vector<std::byte> params(params_bytes);

	if (values.size() != tunables.size())
		return Error{"not the tunables of the law " + std::string(name)};

	const char *wrong = convert(params.data(), values.data());

	if (!wrong)
		return params;

	const BpfTunable *t = find(*this, wrong);
	const std::uint32_t value = values[static_cast<std::size_t>(t - tunables.data())];

	return Error{wrong, t->text(value),
		     t->allows(value) ? std::string(dependence(t->name)) : t->range()};
}

std::span<const BpfLaw> bpf_laws()
{
	return laws;
}

Result<BpfPrefix> BpfPrefix::parse(std::string_view text)
{
	ASSIGN_OR_RETURN(auto prefix, Prefix::parse(text));

	BpfPrefix key;
	const Address &a = prefix.address;
	const bool mapped = !a.v6 && text.find(':') != std::string_view::npos;

	if (mapped)
		return Error{"not a prefix", std::string(text), "an IPv4 prefix as a.b.c.d/n"};
	if (a.v6) {
		key.address = a.bytes;
		key.length = prefix.length;
	} else {
		key.address[10] = key.address[11] = 0xff;
		std::copy_n(a.bytes.begin(), 4, key.address.begin() + 12);
		key.length = 96 + prefix.length;
	}

	BpfPrefix masked = key;

	for (unsigned bit = key.length; bit < 128; bit++)
		masked.address[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
	if (masked != key)
		return Error{"a prefix with bits beyond its length", std::string(text), masked.text()};
	return key;
}

std::string BpfPrefix::text() const
{
	Address a{true, address};
	const bool v4 = length >= 96 && a.text().find(':') == std::string::npos;

	return a.text() + "/" + std::to_string(v4 ? length - 96 : length);
}

} // namespace swift
