// SPDX-License-Identifier: MIT
#include "clock_feeder.h"

#include <linux/net_tstamp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <utility>

#include "clock_ns.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::int64_t first_gap_ns = 10 * ns_per_ms; // then twice that, and so on, to the interval
constexpr std::int64_t check_gap_ns = 2000 * ns_per_ms; // of the stamping
constexpr std::int64_t retry_gap_ns = 1000 * ns_per_ms; // of what may work at any moment
constexpr std::int64_t rare_gap_ns = 5000 * ns_per_ms; // of what depends on others
constexpr std::int64_t unfit_gap_ns = 30000 * ns_per_ms; // of what seldom changes
constexpr std::int64_t step_told_gap_ns = 10000 * ns_per_ms;
constexpr std::int64_t lost_window_ns = 60000 * ns_per_ms;
constexpr std::size_t most_lost = 3; // in that window: then somebody does it on purpose
constexpr std::int64_t validity_gaps = 3;
constexpr std::int64_t min_validity_ns = 150 * ns_per_ms;
// A line is stretched over readings that are of no use for so long at most.
constexpr std::int64_t most_stretch_gaps = 8;
constexpr std::int64_t links_again_ns = ns_per_s; // after they could not be read
constexpr int reads_at_once = 4;
constexpr unsigned restarts_to_tell = 5;
constexpr unsigned errors_to_tell = 3;

} // namespace

std::string_view feed_state_text(FeedState s)
{
	static constexpr std::array<std::string_view, 8> names = {"absent",    "unfit",	    "yielded", "failed",
								  "measuring", "no module", "busy",    "fed"};

	return names[static_cast<std::size_t>(s)];
}

ClockFeeder::ClockFeeder(Files &files, Nics &nics, ClockHost &host, ClockFeederOptions options, Tell tell)
	: host_nics_(nics), host_(host), options_(std::move(options)), tell_(std::move(tell)),
	  memory_(files, host.netns(), options_.keeper)
{
}

Result<void> ClockFeeder::start()
{
	RETURN_IF_ERROR(memory_.hold());
	ASSIGN_OR_RETURN(auto leftovers, memory_.load());
	auto links = host_.links();

	if (!links && links.error().code != EAGAIN)
		return links.error();
	links_missed_ = !links; // they change too fast just now
	leftovers_ = std::move(leftovers);
	running_ = true;
	for (const std::string &name : options_.ifaces) {
		if (find(name))
			continue;
		auto &nic = *nics_.emplace_back(std::make_unique<Nic>());

		nic.s.iface = name;
		nic.asked_for = true;
	}
	if (links)
		take_links(*links, true);
	for (const auto &nic : nics_)
		work(*nic);
	put_back_leftovers();
	schedule();
	return {};
}

void ClockFeeder::stop()
{
	if (!running_)
		return;
	running_ = false;
	for (const auto &nic : nics_) {
		drop_line(*nic);
		if (!nic->before)
			continue;

		const RememberedStamping r{nic->s.iface, nic->s.ifindex, *nic->before, nic->written};
		const auto done = put_back(host_nics_, r);

		if (!done) {
			tell(*nic, true, "stamping",
			     "cannot put the stamping back to " + stamping_text(r.before) + ": " +
				     done.error().text() + "; swiftctl clock restore tries again");
			continue;
		}
		if (*done == PutBack::left)
			tell(*nic, true, "stamping",
			     "somebody else has changed the stamping meanwhile: left alone");
		else if (*done == PutBack::done)
			tell(*nic, false, "stamping", "stamping is back to " + stamping_text(r.before));
		nic->before.reset();
	}
	remember();
	memory_.release();
	nics_.clear();
}

void ClockFeeder::dispatch()
{
	if (!running_)
		return;
	host_.clear_wake();

	auto changes = host_.link_changes();

	if (changes)
		take_links(*changes, false);
	else
		links_missed_ = true;
	if (links_missed_)
		if (auto all = host_.links()) {
			links_missed_ = false;
			take_links(*all, true);
		}

	const std::int64_t now = host_.now_ns();

	for (const auto &nic : nics_)
		if (nic->due_ns <= now)
			work(*nic);
	schedule();
}

std::vector<FeedStatus> ClockFeeder::status() const
{
	std::vector<FeedStatus> all;

	for (const auto &nic : nics_)
		all.push_back(nic->s);
	return all;
}

void ClockFeeder::schedule()
{
	std::int64_t next = host_.now_ns() + (links_missed_ ? links_again_ns : unfit_gap_ns);

	for (const auto &nic : nics_)
		next = std::min(next, nic->due_ns);
	host_.wake_at(next);
}

ClockFeeder::Nic *ClockFeeder::find(std::uint32_t ifindex)
{
	for (const auto &nic : nics_)
		if (nic->s.ifindex == ifindex && ifindex)
			return nic.get();
	return nullptr;
}

ClockFeeder::Nic *ClockFeeder::find(const std::string &name)
{
	for (const auto &nic : nics_)
		if (nic->s.iface == name)
			return nic.get();
	return nullptr;
}

// With @all of them, what is not among them is gone.
void ClockFeeder::take_links(const std::vector<Link> &links, bool all)
{
	if (all)
		for (const auto &nic : nics_)
			if (nic->s.ifindex && std::none_of(links.begin(), links.end(), [&](const Link &l) {
				    return l.ifindex == nic->s.ifindex;
			    }))
				leave(*nic, "the interface is gone");
	for (const Link &link : links)
		take_link(link);
	// Found by looking at everything, and no longer there.
	std::erase_if(nics_, [](const auto &nic) { return !nic->asked_for && !nic->s.ifindex; });
}

void ClockFeeder::take_link(const Link &link)
{
	Nic *nic = find(link.ifindex);

	if (link.gone) {
		if (nic)
			leave(*nic, "the interface is gone");
		return;
	}
	if (nic && nic->asked_for && nic->s.iface != link.name) {
		if (nic->before)
			(void)!put_back(host_nics_, {link.name, link.ifindex, *nic->before, nic->written});
		leave(*nic, "the interface is called " + link.name + " now");
		nic = nullptr;
	}
	if (nic) {
		nic->s.iface = link.name;
		// A reset may have cost it its stamping.
		nic->check_ns = 0;
		if (nic->s.state != FeedState::fed && nic->s.state != FeedState::measuring)
			nic->due_ns = 0;
		return;
	}
	nic = find(link.name);
	if (!nic && !options_.ifaces.empty())
		return;
	if (!nic) {
		if (link.stacked)
			return;
		// All that can: what cannot is not worth a word.
		const auto t = host_nics_.timestamps(link.name);

		if (!t || !t->can_hw_rx_all || t->phc_index < 0)
			return;
		nic = nics_.emplace_back(std::make_unique<Nic>()).get();
		nic->s.iface = link.name;
	}
	if (nic->s.ifindex)
		leave(*nic, "the interface is gone");
	nic->s.ifindex = link.ifindex;
	nic->due_ns = 0;
	nic->check_ns = 0;
	if (link.stacked) {
		nic->s.ifindex = 0;
		nic->due_ns = host_.now_ns() + unfit_gap_ns;
		set_state(*nic, FeedState::unfit,
			  "it is on top of another interface: give the NIC itself");
		return;
	}
	adopt(*nic);
}

// What a killed feeder has changed is ours to put back, if it is still so.
void ClockFeeder::adopt(Nic &nic)
{
	const auto at = std::find_if(leftovers_.begin(), leftovers_.end(), [&](const auto &r) {
		return r.ifindex == nic.s.ifindex && r.iface == nic.s.iface;
	});

	if (at == leftovers_.end())
		return;

	const auto t = host_nics_.timestamps(nic.s.iface);

	if (t && (!t->now || *t->now == at->written)) {
		nic.before = at->before;
		nic.written = at->written;
	}
	leftovers_.erase(at);
}

void ClockFeeder::put_back_leftovers()
{
	for (const RememberedStamping &r : std::exchange(leftovers_, {})) {
		Nic nic;

		nic.s.iface = r.iface;
		const auto done = put_back(host_nics_, r);

		if (done && *done == PutBack::done)
			tell(nic, false, "stamping",
			     "stamping is back to " + stamping_text(r.before) + ", which a feeder that was "
									       "killed had left");
		else if (!done)
			leftovers_.push_back(r);
	}
	remember();
}

void ClockFeeder::leave(Nic &nic, const std::string &why)
{
	drop_line(nic);
	nic.phc.reset();
	nic.fit.restart();
	nic.before.reset();
	nic.s.ifindex = 0;
	nic.s.phc_index = -1;
	nic.lost_ns.clear();
	nic.due_ns = host_.now_ns() + unfit_gap_ns;
	set_state(nic, FeedState::absent, why);
	remember();
}

// The line that is out there of us is no good any more.
void ClockFeeder::drop_line(Nic &nic)
{
	if (nic.sent && nic.s.ifindex) {
		// If it fails the line dies by itself, soon.
		if (nic.s.module)
			(void)!host_.remove_line(nic.s.ifindex);
		host_.remove_bpf_line(nic.s.ifindex);
	}
	nic.sent = false;
	nic.s.line.reset();
	nic.s.module = false;
	nic.s.variants.clear();
}

void ClockFeeder::forget(Nic &nic)
{
	nic.before.reset();
	remember();
}

bool ClockFeeder::remember()
{
	std::vector<RememberedStamping> all = leftovers_;

	for (const auto &nic : nics_)
		if (nic->before)
			all.push_back({nic->s.iface, nic->s.ifindex, *nic->before, nic->written});
	return static_cast<bool>(memory_.save(all));
}

void ClockFeeder::set_state(Nic &nic, FeedState state, const std::string &trouble)
{
	const bool news = nic.s.state != state || nic.s.trouble != trouble;

	nic.s.state = state;
	nic.s.trouble = trouble;
	if (news && !trouble.empty())
		tell(nic, true, std::string(feed_state_text(state)), trouble);
}

void ClockFeeder::tell(const Nic &nic, bool trouble, std::string what, std::string text) const
{
	if (tell_)
		tell_({trouble, nic.s.iface, std::move(what), std::move(text)});
}

void ClockFeeder::work(Nic &nic)
{
	const std::int64_t now = host_.now_ns();

	if (!nic.s.ifindex) {
		nic.due_ns = now + unfit_gap_ns;
		if (nic.s.trouble.empty())
			set_state(nic, FeedState::absent, "there is no such interface");
		return;
	}
	if (now >= nic.check_ns) {
		nic.check_ns = now + check_gap_ns;
		if (!check_stamping(nic)) {
			drop_line(nic);
			nic.fit.restart();
			nic.gap_ns = first_gap_ns;
			nic.check_ns = 0;
			return;
		}
		nic.napis_due = true;
	}
	if (!open(nic))
		return;
	read(nic);
}

// True if the NIC stamps all packets now; else due_ns says when to look again.
bool ClockFeeder::check_stamping(Nic &nic)
{
	const std::int64_t now = host_.now_ns();
	const auto t = host_nics_.timestamps(nic.s.iface);

	if (!t && t.error().code == ENODEV) {
		leave(nic, "the interface is gone");
		return false;
	}
	if (!t) {
		nic.due_ns = now + (t.error().code == EOPNOTSUPP ? unfit_gap_ns : retry_gap_ns);
		set_state(nic, t.error().code == EOPNOTSUPP ? FeedState::unfit : FeedState::failed,
			  "cannot ask for its time stamping: " + t.error().text());
		return false;
	}
	if (t->phc_index != nic.s.phc_index) {
		nic.phc.reset();
		nic.s.phc_index = t->phc_index;
	}
	if (!t->can_hw_rx_all || t->phc_index < 0) {
		nic.due_ns = now + unfit_gap_ns;
		set_state(nic, FeedState::unfit,
			  t->phc_index < 0 ? "it has no clock of its own (PHC)" :
					     "it cannot stamp all packets; its filters: " +
						     rx_filters_text(t->rx_filters));
		return false;
	}
	if (t->now && t->now->rx_filter == HWTSTAMP_FILTER_ALL) {
		const bool wants_tx = t->now->tx_type == HWTSTAMP_TX_OFF &&
				      (t->tx_types & 1U << HWTSTAMP_TX_ON);

		if (wants_tx && !nic.before)
			return turn_on(nic, *t);
		return true;
	}
	if (!t->now && nic.before)
		return true; // it does not tell; believe what it said when it was set
	if (nic.before && t->now) {
		if (t->now->rx_filter != HWTSTAMP_FILTER_NONE) {
			nic.due_ns = now + rare_gap_ns;
			forget(nic);
			set_state(nic, FeedState::yielded,
				  "another program (ptp4l?) has set its stamping to " +
					  stamping_text(*t->now) + ": left alone");
			return false;
		}
		std::erase_if(nic.lost_ns, [&](auto at) { return at < now - lost_window_ns; });
		nic.lost_ns.push_back(now);
		if (nic.lost_ns.size() > most_lost) {
			nic.due_ns = now + unfit_gap_ns;
			set_state(nic, FeedState::yielded,
				  "its stamping is turned off again and again by somebody else: left alone "
				  "for a while");
			return false;
		}
		tell(nic, true, "stamping", "its stamping was lost (a reset?): turned on again");
		return turn_on(nic, *t);
	}
	// Who yielded waits until the other one is done.
	if (nic.s.state == FeedState::yielded && t->now->rx_filter != HWTSTAMP_FILTER_NONE) {
		nic.due_ns = now + rare_gap_ns;
		return false;
	}
	return turn_on(nic, *t);
}

bool ClockFeeder::turn_on(Nic &nic, const NicTimestamps &t)
{
	const std::int64_t now = host_.now_ns();
	const Stamping before = nic.before ? *nic.before : t.now.value_or(Stamping{});
	const Stamping was = t.now.value_or(before);
	Stamping wanted{was.tx_type, HWTSTAMP_FILTER_ALL};
	const bool again = nic.before.has_value();

	if (wanted.tx_type == HWTSTAMP_TX_OFF && (t.tx_types & 1U << HWTSTAMP_TX_ON))
		wanted.tx_type = HWTSTAMP_TX_ON;
	// First remembered, then changed: a kill between the two leaves nothing to regret.
	nic.before = before;
	nic.written = wanted;
	if (!remember()) {
		nic.before.reset();
		nic.due_ns = now + rare_gap_ns;
		set_state(nic, FeedState::failed,
			  "cannot remember how it stamped: left alone");
		return false;
	}

	auto done = host_nics_.set_stamping(nic.s.iface, wanted);

	if (!done && wanted.tx_type != was.tx_type) {
		wanted.tx_type = was.tx_type;
		if (was == wanted)
			done = was;
		else
			done = host_nics_.set_stamping(nic.s.iface, wanted);
	}
	if (!done) {
		const int code = done.error().code;

		if (!again)
			forget(nic);
		if (code == ENODEV) {
			leave(nic, "the interface is gone");
			return false;
		}
		nic.due_ns = now + (code == EPERM ? unfit_gap_ns : rare_gap_ns);
		set_state(nic, FeedState::failed,
			  code == EPERM  ? "may not change its stamping: that needs CAP_NET_ADMIN" :
			  code == ERANGE ? "the driver refuses rx filter all; it offers: " +
						   rx_filters_text(t.rx_filters) :
					   "cannot turn its stamping on: " + done.error().text());
		return false;
	}
	if (done->rx_filter != HWTSTAMP_FILTER_ALL) {
		(void)!host_nics_.set_stamping(nic.s.iface, was);
		forget(nic);
		nic.due_ns = now + unfit_gap_ns;
		set_state(nic, FeedState::unfit,
			  "the driver made rx filter " + rx_filter_text(done->rx_filter) +
				  " of all; it offers: " + rx_filters_text(t.rx_filters));
		return false;
	}
	nic.written = *done;
	if (*done == before)
		nic.before.reset();
	remember();
	if (!again && *done != was)
		tell(nic, false, "stamping",
		     "stamping set to " + stamping_text(*done) + " (was " + stamping_text(was) + ")");
	return true;
}

bool ClockFeeder::open(Nic &nic)
{
	if (nic.phc)
		return true;

	auto device = host_.open_phc(nic.s.phc_index);

	nic.fit.restart();
	nic.gap_ns = first_gap_ns;
	nic.read_errors = 0;
	if (!device) {
		const int code = device.error().code;

		nic.due_ns = host_.now_ns() + (code == EACCES ? unfit_gap_ns : retry_gap_ns);
		set_state(nic, FeedState::failed,
			  device.error().text() + (code == EACCES ? " (needs root, or a udev rule for it)" : ""));
		drop_line(nic);
		return false;
	}
	nic.phc = std::make_unique<PhcReader>(std::move(*device));
	if (nic.s.state != FeedState::fed)
		set_state(nic, FeedState::measuring);
	return true;
}

void ClockFeeder::read(Nic &nic)
{
	const std::int64_t interval = std::int64_t{options_.interval_ms} * ns_per_ms;
	auto verdict = ClockFit::Verdict::suspect;

	for (int i = 0; i < reads_at_once && verdict == ClockFit::Verdict::suspect; i++) {
		auto reading = nic.phc->read();

		if (!reading) {
			nic.read_errors++;
			nic.due_ns = host_.now_ns() + interval;
			if (reading.error().code == ENODEV) {
				nic.phc.reset();
				nic.check_ns = 0;
				drop_line(nic);
				set_state(nic, FeedState::failed, "its clock is gone");
			} else if (nic.read_errors >= errors_to_tell) {
				nic.fit.restart();
				drop_line(nic);
				set_state(nic, FeedState::failed, reading.error().text());
			}
			return;
		}
		verdict = nic.fit.add(*reading);
	}
	nic.read_errors = 0;
	if (verdict == ClockFit::Verdict::restarted)
		stepped(nic);

	nic.due_ns = host_.now_ns() + nic.gap_ns;
	send(nic);
	nic.gap_ns = std::min(nic.gap_ns * 2, interval);
}

void ClockFeeder::stepped(Nic &nic)
{
	const std::int64_t now = host_.now_ns();

	drop_line(nic);
	nic.gap_ns = first_gap_ns;
	nic.restarts++;
	nic.steps_untold++;
	if (nic.restarts >= restarts_to_tell) {
		set_state(nic, FeedState::failed,
			  "its clock and the host's do not run alike: no line fits them");
		return;
	}
	if (now - nic.step_told_ns < step_told_gap_ns && nic.step_told_ns)
		return;
	tell(nic, true, "stepped",
	     "one of the clocks was stepped or slewed, by " + span_text(std::llround(std::clamp(-nic.fit.last_step_ns(), -9e18, 9e18)), true) +
		     " (NIC's minus host's)" +
		     (nic.steps_untold > 1 ? ", and " + std::to_string(nic.steps_untold - 1) +
						     " times since this was last said" :
					     "") +
		     ": measuring anew");
	nic.step_told_ns = now;
	nic.steps_untold = 0;
}

// The line, for three gaps; what cannot be fed now is measured on.
void ClockFeeder::send(Nic &nic)
{
	const std::int64_t now = host_.now_ns();
	const std::int64_t valid_ns = std::max(validity_gaps * nic.gap_ns, min_validity_ns);

	if (nic.fit.count() < 2 || now < nic.send_ns)
		return;

	const std::int64_t age = now - nic.fit.newest().host_ns;

	if (age > most_stretch_gaps * std::int64_t{options_.interval_ms} * ns_per_ms)
		return;

	const auto line = nic.fit.line(valid_ns + age);

	if (!line)
		return;

	const auto valid_ms = static_cast<std::uint32_t>(valid_ns / ns_per_ms);
	const auto done = now < module_ns_ ? Result<void>(Error{"not loaded", {}, {}, error_no_module}) :
					     host_.set_line(nic.s.ifindex, *line, valid_ms);
	const bool no_module = !done && done.error().code == error_no_module;

	if (no_module && now >= module_ns_)
		module_ns_ = now + retry_gap_ns;
	// Who feeds the module feeds the variants; a line that it does not take is nobody's.
	if (done || no_module) {
		const VariantsFed bpf = host_.set_bpf_line(nic.s.ifindex, *line, valid_ms, now);
		const std::string trouble = bpf.error ? bpf.error->text() : "";

		if (done || !bpf.variants.empty()) {
			fed(nic, *line, static_cast<bool>(done), bpf.variants);
			if (std::exchange(nic.bpf_trouble, trouble) != trouble && !trouble.empty())
				tell(nic, true, "bpf", "BPF variants cannot be fed: " + trouble);
			if (!bpf.variants.empty() && nic.napis_due)
				feed_napis(nic);
			return;
		}
		drop_line(nic);
		nic.send_ns = now + retry_gap_ns;
		set_state(nic, FeedState::no_module,
			  trouble.empty() ?
				  "neither the module tcp_swift (or it is too old) nor a BPF variant that takes "
				  "clocks (bpf_swift) is loaded: ready, and waiting for one" :
				  "the module tcp_swift is not loaded (or too old), and BPF variants cannot be fed: " +
					  trouble);
		return;
	}
	if (nic.sent)
		host_.remove_bpf_line(nic.s.ifindex);
	nic.sent = false;
	nic.s.line.reset();
	nic.s.module = false;
	nic.s.variants.clear();
	switch (done.error().code) {
	case EBUSY:
		nic.send_ns = now + rare_gap_ns;
		set_state(nic, FeedState::busy,
			  host_.owner_of(nic.s.ifindex) + " feeds it already: left alone, tried again now "
							  "and then");
		break;
	case ENODEV:
		leave(nic, "the interface is gone");
		break;
	case EPERM:
		nic.send_ns = now + unfit_gap_ns;
		set_state(nic, FeedState::failed, "may not feed the module: that needs CAP_NET_ADMIN");
		break;
	default:
		nic.send_ns = now + retry_gap_ns;
		nic.fit.restart();
		nic.gap_ns = first_gap_ns;
		set_state(nic, FeedState::failed, done.error().text());
		break;
	}
}

// Without them packets are known by the device that they came by: nothing that ends feeding.
void ClockFeeder::feed_napis(Nic &nic)
{
	const auto done = host_.set_bpf_napis(nic.s.ifindex);
	const std::string trouble = done ? "" : done.error().text();

	nic.napis_due = false;
	if (std::exchange(nic.napi_trouble, trouble) != trouble && !trouble.empty())
		tell(nic, true, "bpf", "BPF variants cannot be told its NAPIs: " + trouble);
}

void ClockFeeder::fed(Nic &nic, const ClockLine &line, bool module,
		      const std::vector<std::string> &variants)
{
	const bool news = nic.s.state != FeedState::fed || nic.s.module != module ||
			  nic.s.variants != variants;
	std::string to;

	if (nic.s.variants != variants)
		nic.napis_due = true;
	nic.sent = true;
	nic.s.line = line;
	nic.s.module = module;
	nic.s.variants = variants;
	nic.restarts = 0;
	nic.send_ns = 0;
	if (!news)
		return;
	for (const std::string &name : variants)
		to += (to.empty() ? module ? " to the module and " : " to " : ", ") + name;
	set_state(nic, FeedState::fed);
	tell(nic, false, "fed",
	     "fed from /dev/ptp" + std::to_string(nic.s.phc_index) + " (" +
		     std::string(phc_method_text(nic.phc->method())) + " readings)" + to);
}

} // namespace swift
