// SPDX-License-Identifier: MIT
// What is said of questions and answers, and read again: pure functions. The sockets are ab_rr_net.cpp's.
#include "ab_rr.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ab_json.h"

namespace swift {

namespace {

constexpr std::string_view magic = "swiftrr1";
constexpr std::size_t cc_bytes = 16; // TCP_CA_NAME_MAX

double count_behind(double q) // answers, to have one beyond the quantile
{
	return std::ceil(1 / (1 - q) - 1e-9);
}

} // namespace

std::array<char, rr_head_bytes> rr_head(const RrHead &head)
{
	std::array<char, rr_head_bytes> bytes{};
	const std::uint32_t ask = htonl(head.ask_bytes), answer = htonl(head.answer_bytes);

	std::memcpy(bytes.data(), magic.data(), magic.size());
	std::memcpy(bytes.data() + magic.size(), head.cc.data(), std::min(head.cc.size(), cc_bytes - 1));
	std::memcpy(bytes.data() + magic.size() + cc_bytes, &ask, sizeof(ask));
	std::memcpy(bytes.data() + magic.size() + cc_bytes + sizeof(ask), &answer, sizeof(answer));
	return bytes;
}

Result<RrHead> parse_rr_head(std::string_view bytes)
{
	RrHead head;

	if (bytes.size() != rr_head_bytes || !bytes.starts_with(magic))
		return Error{"not a client of swiftctl ab --rr"};
	const std::string_view cc = bytes.substr(magic.size(), cc_bytes);

	head.cc = cc.substr(0, cc.find('\0'));
	std::memcpy(&head.ask_bytes, bytes.data() + magic.size() + cc_bytes, sizeof(head.ask_bytes));
	std::memcpy(&head.answer_bytes, bytes.data() + magic.size() + cc_bytes + sizeof(head.ask_bytes),
		    sizeof(head.answer_bytes));
	head.ask_bytes = ntohl(head.ask_bytes);
	head.answer_bytes = ntohl(head.answer_bytes);
	RETURN_IF_ERROR(check_cc_name(head.cc));
	for (const std::uint32_t n : {head.ask_bytes, head.answer_bytes})
		if (n < 1 || n > rr_most_bytes)
			return Error{"bytes of a question or an answer", std::to_string(n), fmt::format("1 to {}", rr_most_bytes)};
	return head;
}

RrMoments::RrMoments(unsigned every_ms, std::uint64_t seed, std::int64_t now_ns)
	: random_(seed), apart_ns_(1.0 / (every_ms * 1e6)), next_ns_(now_ns)
{
	draw();
}

void RrMoments::draw()
{
	next_ns_ += std::max<std::int64_t>(1, std::llround(apart_ns_(random_)));
}

std::vector<std::int64_t> RrMoments::pass(std::int64_t now_ns, std::int64_t from_ns, std::int64_t until_ns)
{
	std::vector<std::int64_t> passed;

	for (; next_ns_ <= now_ns; draw())
		if (next_ns_ >= from_ns && next_ns_ < until_ns)
			passed.push_back(next_ns_);
	return passed;
}

std::int64_t rr_passed_ns(std::int64_t at_ns, std::int64_t now_ns, std::int64_t took_ns, std::int64_t before_ns, bool anew)
{
	const std::int64_t as_before_ns = std::min(took_ns, before_ns);

	return anew ? as_before_ns : std::max(now_ns - at_ns, as_before_ns);
}

void RrTimes::add(double time_ns)
{
	count_++;
	if (times_ns_.size() < most_)
		times_ns_.push_back(time_ns);
	else if (const auto at = std::uniform_int_distribution<std::uint64_t>(0, count_ - 1)(random_); at < most_)
		times_ns_[at] = time_ns;
}

std::vector<double> RrTimes::taken() const
{
	std::vector<double> all = times_ns_, some;

	std::sort(all.begin(), all.end());
	if (all.size() <= rr_most_times)
		return all;
	const double share = static_cast<double>(all.size()) / rr_most_times;

	for (std::size_t i = 0; i < rr_most_times; i++)
		some.push_back(all[static_cast<std::size_t>((static_cast<double>(i) + 0.5) * share)]);
	return some;
}

std::string rr_json(const RrRun &run)
{
	return Json{{"schema", 1},	      {"cc", run.cc},		{"count", run.count},
		    {"of_each", run.of_each}, {"seconds", run.seconds}, {"times_ns", run.times_ns}, {"retransmits", run.retransmits},
		    {"segments", run.segments}, {"waited_s", run.waited_s}, {"moments", run.moments}}
		       .dump() +
	       "\n";
}

Result<RrRun> parse_rr(std::string_view text)
{
	ASSIGN_OR_RETURN(const auto json, prefixed("the answers' times are ", parse_json(text)));
	std::optional<Error> wrong;
	const JsonNode root(json, wrong);
	RrRun run;

	if (const std::string error = root["error"].maybe_text(); !wrong && !error.empty())
		return Error{error};
	(void)root["schema"].number(1, 1);
	run.cc = root["cc"].text();
	run.count = static_cast<std::uint64_t>(root["count"].number(0, 1e15));
	run.seconds = root["seconds"].number(0, 1e6);
	run.retransmits = static_cast<std::uint64_t>(root["retransmits"].number(0, 1e15));
	run.segments = static_cast<std::uint64_t>(root["segments"].number(0, 1e15));
	if (const JsonNode waited = root["waited_s"]; waited.exists()) // not from one of an older version
		run.waited_s = waited.number(0, 1e6);
	run.moments = run.count; // so it was in older versions
	if (const JsonNode moments = root["moments"]; moments.exists())
		run.moments = static_cast<std::uint64_t>(moments.number(0, 1e15));
	for (const JsonNode &n : root["of_each"].required("a list").list())
		run.of_each.push_back(n.number(0, 1e15));
	for (const JsonNode &t : root["times_ns"].required("a list").list())
		run.times_ns.push_back(t.number(0, 1e15));
	if (!wrong && (run.times_ns.size() > std::min<std::uint64_t>(run.moments, rr_most_times) ||
		       (run.count > 0 && run.times_ns.empty()) || !std::is_sorted(run.times_ns.begin(), run.times_ns.end())))
		root["times_ns"].complain("times of so many moments, ascending");
	if (wrong)
		return Error{"the answers' times: " + wrong->text()};
	return run;
}

std::optional<double> rr_quantile(const std::vector<RrRun> &legs, double q)
{
	std::vector<std::pair<double, double>> all; // time, of how many
	double count = 0, moments = 0;

	for (const RrRun &leg : legs) {
		count += static_cast<double>(leg.count);
		moments += static_cast<double>(leg.moments);
		for (const double t : leg.times_ns)
			all.emplace_back(t, leg.moments_of_each());
	}
	if (all.empty() || count < count_behind(q))
		return std::nullopt;
	std::sort(all.begin(), all.end());
	double left = q * moments;

	for (const auto &[time, of] : all) {
		left -= of;
		if (left <= 1e-9 * moments)
			return time;
	}
	return all.back().first;
}

} // namespace swift
