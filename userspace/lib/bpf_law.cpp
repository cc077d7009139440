// SPDX-License-Identifier: MIT
#include "bpf_law.h"

#include <algorithm>
#include <cstring>

#include "core/gcn.h"
#include "core/timely.h"
#include "flow.h"
#include "maps.h"
#include "text.h"

namespace swift {

namespace {

#define SWIFT_X(name, def, lo, hi, doc) BpfTunable{#name, def, lo, hi, doc},
constexpr std::array swift_table = {
	SWIFT_TUNABLES(SWIFT_X)
	// What the shell around the law adds.
	BpfTunable{"max_rtt_ns", 5000000, 1000, 2147483647,
		   "handshake RTT above which a flow runs Reno instead"},
};
constexpr std::array timely_table = {TIMELY_TUNABLES(SWIFT_X)};
constexpr std::array gcn_table = {GCN_TUNABLES(SWIFT_X)};
#undef SWIFT_X

// In the order of enum swift_target_policy.
constexpr std::array<std::string_view, 3> policy_words = {"static", "base_rtt", "base_rtt_plus"};
static_assert(SWIFT_TARGET_BASE_RTT_PLUS + 1 == policy_words.size());

// The core's structs of tunables are one u32 a row of their tables.
template <typename Params, typename Tunables, const char *(*prepare)(Params *, const Tunables *)>
const char *convert(std::byte *out, const std::uint32_t *values)
{
	Tunables t;
	Params p{}; // what is padding in it goes to the kernel too

	std::memcpy(&t, values, sizeof(t));
	const char *wrong = prepare(&p, &t);

	if (!wrong)
		std::memcpy(out, &p, sizeof(p));
	return wrong;
}

const char *convert_swift(std::byte *out, const std::uint32_t *values)
{
	constexpr std::size_t of_law = sizeof(swift_tunables) / sizeof(std::uint32_t);
	bpf_swift_profile p{};
	const char *wrong = convert<swift_params, swift_tunables, swift_params_prepare>(
		reinterpret_cast<std::byte *>(&p.law), values);

	p.max_rtt_ns = values[of_law];
	if (!wrong && (p.max_rtt_ns < swift_table.back().min || p.max_rtt_ns > swift_table.back().max))
		wrong = swift_table.back().name.data();
	if (!wrong)
		std::memcpy(out, &p, sizeof(p));
	return wrong;
}

template <typename Params, typename Tunables, const char *(*prepare)(Params *, const Tunables *)>
constexpr BpfLaw law(std::string_view name, std::string_view params_map, std::span<const BpfTunable> table)
{
	return {name, params_map, "", sizeof(Params), table,
		convert<Params, Tunables, prepare>};
}

static_assert(sizeof(swift_tunables) == (swift_table.size() - 1) * sizeof(std::uint32_t));
static_assert(sizeof(timely_tunables) == timely_table.size() * sizeof(std::uint32_t));
static_assert(sizeof(gcn_tunables) == gcn_table.size() * sizeof(std::uint32_t));

const std::array<BpfLaw, 3> laws = {
	BpfLaw{"swift", "swift_params", "swift_profiles", sizeof(bpf_swift_profile), swift_table, convert_swift},
	law<timely_params, timely_tunables, timely_params_prepare>("timely", "timely_params", timely_table),
	law<gcn_params, gcn_tunables, gcn_params_prepare>("gcn", "gcn_params", gcn_table)};

// What else a tunable that is in its range depends on.
std::string_view dependence(std::string_view name)
{
	if (name == "fs_max_cwnd_milli")
		return "at least twice fs_min_cwnd_milli";
	if (name == "min_cwnd_micro")
		return "at most max_cwnd packets";
	if (name == "t_high_ns")
		return "at least t_low_ns";
	if (name == "max_rate_mbps")
		return "at least min_rate_mbps";
	if (name == "init_rate_mbps")
		return "min_rate_mbps to max_rate_mbps";
	return "";
}

const BpfTunable *find(const BpfLaw &law, std::string_view name)
{
	for (const BpfTunable &t : law.tunables)
		if (t.name == name)
			return &t;
	return nullptr;
}

} // namespace

std::string BpfTunable::text(std::uint32_t value) const
{
	if (name == "target_policy" && value < policy_words.size())
		return std::string(policy_words[value]);
	return std::to_string(value);
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
		values.push_back(t.name == "split" && variant.ends_with("_v0") ? 0 : t.fallback);
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
		const auto word = std::find(policy_words.begin(), policy_words.end(), value);

		if (word == policy_words.end())
			return Error{std::string(key), std::string(value), t->range()};
		slot = static_cast<std::uint32_t>(word - policy_words.begin());
		return {};
	}

	auto number = parse_int(key, value, t->min, t->max);

	if (!number)
		return number.error();
	slot = static_cast<std::uint32_t>(*number);
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
	const bool in_range = value >= t->min && value <= t->max;

	return Error{wrong, t->text(value),
		     in_range ? std::string(dependence(t->name)) : t->range()};
}

std::span<const BpfLaw> bpf_laws()
{
	return laws;
}

Result<BpfPrefix> BpfPrefix::parse(std::string_view text)
{
	auto prefix = Prefix::parse(text);

	if (!prefix)
		return prefix.error();

	BpfPrefix key;
	const Address &a = prefix->address;
	const bool mapped = !a.v6 && text.find(':') != std::string_view::npos;

	if (mapped)
		return Error{"not a prefix", std::string(text), "an IPv4 prefix as a.b.c.d/n"};
	if (a.v6) {
		key.address = a.bytes;
		key.length = prefix->length;
	} else {
		key.address[10] = key.address[11] = 0xff;
		std::copy_n(a.bytes.begin(), 4, key.address.begin() + 12);
		key.length = 96 + prefix->length;
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
