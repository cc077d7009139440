// SPDX-License-Identifier: MIT
#include "probing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <unordered_map>

#include "clock_ns.h"
#include "system.h"

namespace swift {

namespace {

constexpr unsigned probes_a_turn = 4; // to each peer of a round; a fifth packet fetches the last turnaround
constexpr std::int64_t tell_every_ns = ns_per_s;
constexpr std::int64_t settle_every_ns = 50 * ns_per_ms;
constexpr std::int64_t refresh_every_ns = 10 * ns_per_s; // of what only grows older
constexpr std::int64_t complain_every_ns = 60 * ns_per_s;
constexpr std::int64_t all_sources = 10; // may ask for so many times what one may

std::string peer_trouble(int code)
{
	return code == ECONNREFUSED ? "nobody answers on that port (probe.listen of its swiftd)" : std::strerror(code);
}

// How bad, for a list that begins with the worst.
int rank_of(PeerState s)
{
	switch (s) {
	case PeerState::slow:
		return 0;
	case PeerState::silent:
		return 1;
	case PeerState::lossy:
		return 2;
	case PeerState::unmeasured:
		return 3;
	case PeerState::good:
		break;
	}
	return 4;
}

std::uint32_t counted_ns(std::int64_t ns)
{
	return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns, 0, std::numeric_limits<std::uint32_t>::max()));
}

// "rack b", and what its hosts are called.
std::string rack_words(const std::string &rack)
{
	return rack == no_rack ? "peers without a rack" : rack == other_racks ? "the other racks" : "rack " + rack;
}

std::string host_words(const std::string &rack)
{
	return rack == no_rack ? "peers without a rack" : "hosts in " + rack_words(rack);
}

std::string host_of(const std::string &name)
{
	if (name.starts_with('['))
		return name.substr(1, name.find(']') - 1);
	return std::count(name.begin(), name.end(), ':') == 1 ? name.substr(0, name.find(':')) : name;
}

GateLimits gate_limits(const Config::Probe &config)
{
	return {std::min<std::int64_t>(config.answers_pps * all_sources, GateLimits{}.rate_pps), config.answers_pps};
}

void end_thread(const Fd &stop, std::thread &thread)
{
	const std::uint64_t one = 1;

	while (stop && write(stop.get(), &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	if (thread.joinable())
		thread.join();
}

std::vector<ProbeAddress> bind_addresses(const std::vector<std::string> &listen)
{
	std::vector<ProbeAddress> out;

	for (const std::string &text : listen)
		if (const auto l = parse_listen("probe.listen", text)) // the configuration was checked
			out.push_back({{*Address::parse(l->host), l->port}, 0});
	return out;
}

} // namespace

Result<ProbeInputs> ProbeInputs::read(const Config::Probe &config)
{
	ProbeInputs inputs;
	std::set<std::string> known;
	const auto take = [&](ProbedPeer peer) {
		if (known.insert(peer.name).second)
			inputs.peers.push_back(std::move(peer));
	};

	for (const std::string &text : config.peers) {
		auto peer = parse_peer("probe.peers", text);

		if (!peer)
			return peer.error();
		take(std::move(*peer));
	}
	if (!config.peers_file.empty()) {
		const auto text = real_system()->read_file(config.peers_file);

		if (!text)
			return Error{"probe.peers_file: " + text.error().text()};
		auto peers = parse_peers(config.peers_file, *text);

		if (!peers)
			return Error{"probe.peers_file: " + peers.error().text()};
		for (ProbedPeer &peer : *peers)
			take(std::move(peer));
	}
	if (!config.key_file.empty()) {
		const auto text = real_system()->read_file(config.key_file);

		if (!text)
			return Error{"probe.key_file: " + text.error().text()};
		auto keys = ProbeKeys::parse(config.key_file, *text);

		if (!keys)
			return Error{"probe.key_file: " + keys.error().text()};
		inputs.keys = std::move(*keys);
	}
	return inputs;
}

// --- The book --------------------------------------------------------------------------------

ProbeBook::ProbeBook(const Config::Probe &config, const std::vector<ProbedPeer> &peers)
	: limits_{static_cast<std::int64_t>(config.fabric_limit_us * 1e3), static_cast<std::int64_t>(config.host_limit_us * 1e3)},
	  window_ns_(config.window_s * ns_per_s), rack_(config.rack.empty() ? no_rack : config.rack)
{
	for (const ProbedPeer &given : peers) {
		Peer p;

		p.given_rack = given.rack;
		p.rack = place_of(given.rack, static_cast<std::size_t>(config.max_racks));
		p.row.name = given.name;
		p.row.rack = racks_[p.rack].row.peer_rack;
		peers_.push_back(std::move(p));
	}
}

std::size_t ProbeBook::place_of(const std::string &rack, std::size_t most)
{
	const auto find = [&](std::string_view name) {
		return static_cast<std::size_t>(
			std::find_if(racks_.begin(), racks_.end(), [&](const Rack &r) { return r.row.peer_rack == name; }) -
			racks_.begin());
	};
	std::string name = rack;
	std::size_t place = find(name);

	if (place == racks_.size() && racks_.size() >= most) {
		name = other_racks;
		place = find(name);
	}
	if (place == racks_.size()) {
		Rack r;

		r.row.peer_rack = r.counters.peer_rack = name;
		racks_.push_back(std::move(r));
	}
	return place;
}

void ProbeBook::is_self(std::size_t peer)
{
	peers_[peer].self = true;
	if (rack_ == no_rack)
		rack_ = peers_[peer].given_rack;
}

void ProbeBook::add(std::size_t peer, const ProbeSample &sample)
{
	Peer &p = peers_[peer];
	Rack &r = racks_[p.rack];

	p.samples.add(sample);
	p.changed = r.changed = true;
	(sample.lost ? r.counters.lost : r.counters.answered)++;
	if (!sample.measured())
		return;
	const bool hardware = sample.local == Stamp::hardware && sample.remote == Stamp::hardware;

	r.counters.fabric[hardware].add(counted_ns(sample.fabric_ns));
	r.counters.host[hardware].add(counted_ns(sample.host_ns()));
}

void ProbeBook::go_on_from(ProbeBook &before)
{
	std::unordered_map<std::string_view, Peer *> known;

	for (Peer &p : before.peers_)
		known[p.row.name] = &p;
	for (Peer &p : peers_)
		if (const auto at = known.find(p.row.name); at != known.end())
			p.samples = std::move(at->second->samples);
	for (Rack &r : racks_)
		for (const Rack &b : before.racks_)
			if (b.row.peer_rack == r.row.peer_rack)
				r.counters = b.counters;
}

void ProbeBook::tell(std::int64_t now_ns, ProbeNews &out)
{
	const bool all = now_ns - all_told_ns_ >= refresh_every_ns;
	std::vector<std::vector<ProbeSample>> of_rack(racks_.size());
	std::vector<ProbeSample> own;

	for (Peer &p : peers_) {
		if (p.self || !(all || racks_[p.rack].changed))
			continue;
		own.clear();
		p.samples.collect(now_ns - window_ns_, own);
		of_rack[p.rack].insert(of_rack[p.rack].end(), own.begin(), own.end());
		if (!all && !p.changed)
			continue;
		p.row.summary = summarize_probes(own);
		p.row.verdict = probe_verdict(p.row.summary, limits_, {"the path to " + p.row.name, p.row.name});
		p.changed = false;
	}
	for (std::size_t i = 0; i < racks_.size(); i++) {
		Rack &r = racks_[i];

		if (all || r.changed) {
			r.row.summary = summarize_probes(of_rack[i]);
			r.row.verdict = probe_verdict(r.row.summary, limits_,
						      {"the path to " + rack_words(r.row.peer_rack), host_words(r.row.peer_rack), true});
			r.changed = false;
		}
		r.row.rack = rack_;
		r.row.peers = 0;
		r.row.states = {};
	}
	if (all)
		all_told_ns_ = now_ns;

	out.rack = rack_;
	out.limits = limits_;
	for (const Peer &p : peers_) {
		if (p.self)
			continue;
		racks_[p.rack].row.peers++;
		racks_[p.rack].row.states[static_cast<std::size_t>(p.row.verdict.state)]++;
		out.peers.push_back(p.row);
	}
	for (const Rack &r : racks_)
		if (r.row.peers > 0) {
			out.pairs.push_back(r.row);
			out.counters.push_back(r.counters);
		}
	const auto delay_ns = [](const ProbePeerRow &p) { return p.summary.fabric.p90_ns + p.summary.host.p90_ns; };

	std::sort(out.peers.begin(), out.peers.end(), [&](const ProbePeerRow &a, const ProbePeerRow &b) {
		const int ra = rank_of(a.verdict.state);
		const int rb = rank_of(b.verdict.state);

		return ra != rb ? ra < rb : delay_ns(a) != delay_ns(b) ? delay_ns(a) > delay_ns(b) : a.name < b.name;
	});
	std::sort(out.pairs.begin(), out.pairs.end(),
		  [](const ProbePairRow &a, const ProbePairRow &b) { return a.peer_rack < b.peer_rack; });
}

// --- Who probes ------------------------------------------------------------------------------

class Probing::Mesh : public Prober {
public:
	// @before: what it goes on from, if there was one.
	static Result<std::unique_ptr<Mesh>> make(const Order &order, Nics &nics, const NameLookups::Ask &ask, Mesh *before)
	{
		const Config::Probe &c = order.config;
		const auto gap_ns = static_cast<std::int64_t>(1e9 / c.rate_pps);
		std::uint64_t seed = 0;
		auto client = ProbeClient::open({order.inputs.keys.least_bytes(), {}, 0, c.timeout_ms * ns_per_ms, 2 * c.sample * gap_ns},
						order.inputs.keys, nics);

		if (!client)
			return client.error();
		if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
			return errno_error("no random number", errno);
		auto mesh = std::make_unique<Mesh>(order, std::move(*client), ask, gap_ns, seed);

		if (before) {
			mesh->book_.go_on_from(before->book_);
			mesh->unbelieved_before_ = before->unbelieved();
		}
		return mesh;
	}
	Mesh(const Order &order, ProbeClient client, const NameLookups::Ask &ask, std::int64_t gap_ns, std::uint64_t seed)
		: order_(order), client_(std::move(client)), lookups_(ask), book_(order.config, order.inputs.peers),
		  peers_(order.inputs.peers.size()), rounds_({peers_.size(), static_cast<std::size_t>(order.config.sample), probes_a_turn, gap_ns}, seed)
	{
		for (const std::string &text : order.config.listen)
			if (const auto l = parse_listen("probe.listen", text))
				own_ports_.insert(l->port);
		if (own_ports_.empty())
			own_ports_.insert(probe_port);
		find_self();
	}

	[[nodiscard]] const std::vector<ProbeSocket> &sockets() const { return client_.sockets(); }
	[[nodiscard]] std::int64_t due_ns() const
	{
		return peers_.empty() ? std::numeric_limits<std::int64_t>::max() : std::min(rounds_.due_ns(), settle_ns_);
	}
	// Whatever is due.
	void work()
	{
		client_.take(*this);

		const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

		if (now_ns >= settle_ns_) {
			client_.settle(*this, now_ns);
			settle_ns_ = now_ns + settle_every_ns;
			for (const auto &[peer, address] : lookups_.take(now_ns))
				looked_up(peer, address);
		}
		const auto turn = rounds_.take(now_ns);

		if (!turn)
			return;
		if (turn->first)
			for (const std::size_t i : rounds_.chosen())
				if (!peers_[i].target && !peers_[i].self)
					lookups_.ask(i, order_.inputs.peers[i].name, now_ns);
		const Peer &p = peers_[turn->peer];

		if (!p.target)
			return;
		if (auto sent = client_.send(*p.target, turn->counts); !sent) {
			book_.set_trouble(turn->peer, peer_trouble(sent.error().code));
			// No way there: old samples would speak for it. Want of room here says nothing of it.
			if (turn->counts && sent.error().code != ENOBUFS && sent.error().code != EAGAIN)
				book_.add(turn->peer, {.at_ns = now_ns, .lost = true});
		}
	}
	void tell(ProbeNews &out)
	{
		book_.tell(clock_ns(CLOCK_MONOTONIC), out);
		out.is_signed = !order_.inputs.keys.empty();
		out.unbelieved = unbelieved();
		out.rate_pps = order_.config.rate_pps;
		out.cycle_s = static_cast<double>(rounds_.cycle_ns()) / real_ns_per_s;
		out.window_s = static_cast<double>(order_.config.window_s);
	}

	void replied(std::size_t target, ReplyKind kind, unsigned) override
	{
		if (kind == ReplyKind::fresh)
			book_.set_trouble(peer_of_[target], "");
	}
	void failed(std::size_t target, int code) override { book_.set_trouble(peer_of_[target], peer_trouble(code)); }
	void settled(std::size_t target, const Exchange &exchange, const Measured &measured) override
	{
		if (exchange.counts)
			book_.add(peer_of_[target], probe_sample(exchange.sent_ns, exchange, measured));
	}

private:
	struct Peer {
		std::optional<std::size_t> target; // of the client
		bool self = false;
	};

	// Without asking anybody: by its addresses, and by its name.
	void find_self()
	{
		utsname host{};

		uname(&host);
		for (std::size_t i = 0; i < peers_.size(); i++) {
			const std::string &name = order_.inputs.peers[i].name;
			const std::string text = host_of(name);

			if (Address::parse(text))
				looked_up(i, resolve_probe(name, probe_port));
			else if (const auto port = probe_port_of(name); text == host.nodename && port && own_ports_.contains(*port))
				be_self(i);
		}
	}
	void be_self(std::size_t peer)
	{
		peers_[peer].self = true;
		book_.is_self(peer);
	}
	void looked_up(std::size_t peer, const Result<ProbeAddress> &address)
	{
		Peer &p = peers_[peer];

		if (!address)
			return book_.set_trouble(peer, address.error().text());
		if (own_ports_.contains(address->endpoint.port) &&
		    std::find(own_.begin(), own_.end(), address->endpoint.address) != own_.end())
			return be_self(peer);

		const auto added = client_.add(*address);

		if (!added)
			return book_.set_trouble(peer, added.error().text());
		p.target = *added;
		peer_of_.push_back(peer);
		book_.set_trouble(peer, "");
	}
	[[nodiscard]] RefusalCounts unbelieved() const
	{
		RefusalCounts all = unbelieved_before_;

		for (std::size_t i = 0; i < refusals; i++)
			all[i] += client_.refused()[i];
		return all;
	}

	const Order order_;
	ProbeClient client_;
	NameLookups lookups_;
	ProbeBook book_;
	std::vector<Peer> peers_;
	std::vector<std::size_t> peer_of_; // by target
	ProbeRounds rounds_;
	const std::vector<Address> own_ = own_addresses();
	std::set<std::uint16_t> own_ports_;
	RefusalCounts unbelieved_before_{}; // by the mesh that this one goes on from
	std::int64_t settle_ns_ = 0;
};

// --- The threads -----------------------------------------------------------------------------

Probing::~Probing()
{
	end_thread(stop_answering_, answering_);
	end_thread(stop_, probing_);
}

Result<void> Probing::start(const Config::Probe &config, ProbeInputs inputs)
{
	auto change = prepare(config, std::move(inputs));

	if (!change)
		return change.error();
	apply(std::move(*change));
	return {};
}

Result<Probing::Change> Probing::prepare(const Config::Probe &config, ProbeInputs inputs) const
{
	Change change{{config, std::move(inputs)}, {}, {}};
	const auto said = [](const Error &e) { return Error{"probe.listen: " + e.text(), {}, {}, e.code}; };

	if (config.listen == order_.config.listen)
		return change;
	if (server_) {
		auto bound = server_->open_for(bind_addresses(config.listen));

		if (!bound)
			return said(bound.error());
		change.bound = std::move(*bound);
	} else {
		auto server = ProbeServer::open({bind_addresses(config.listen), {}, gate_limits(config)}, change.order.inputs.keys);

		if (!server)
			return said(server.error());
		change.server.emplace(std::move(*server));
	}
	return change;
}

bool Probing::apply(Change change)
{
	const bool limits = change.order.config.answers_pps != order_.config.answers_pps;

	if (change.order == order_)
		return false;
	if (change.bound || change.server || limits)
		end_thread(stop_answering_, answering_);
	if (change.server)
		server_.emplace(std::move(*change.server));
	if (change.bound)
		server_->take(std::move(*change.bound));
	if (server_ && limits)
		server_->set_limits(gate_limits(change.order.config));
	{
		const std::scoped_lock lock(mutex_);

		order_ = std::move(change.order);
		orders_++;
		places_ = server_ ? server_->places() : std::vector<std::string>();
	}
	begin();
	return true;
}

void Probing::begin()
{
	if (answers() && !answering_.joinable()) {
		stop_answering_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		answering_ = std::thread([this] { answer(); });
	}
	if (probing_.joinable() || (!answers() && !order_.config.probes()))
		return;
	stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	probing_ = std::thread([this] { probe(); });
}

void Probing::answer()
{
	std::uint64_t seen = 0;
	std::int64_t complained_ns = 0;
	RefusalCounts told = server_->refused();
	std::vector<pollfd> fds = {{stop_answering_.get(), POLLIN, 0}};

	for (const ProbeSocket &s : server_->sockets())
		fds.push_back({s.fd(), POLLIN, 0}); // POLLERR, for stamps, comes unasked
	while (fds[0].revents == 0) {
		if (poll(fds.data(), fds.size(), -1) < 0)
			continue;
		{
			const std::scoped_lock lock(mutex_);

			if (seen != orders_)
				server_->set_keys(order_.inputs.keys);
			seen = orders_;
		}
		server_->serve();

		const RefusalCounts &refused = server_->refused();
		const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		{
			const std::scoped_lock lock(mutex_);

			answered_ = server_->answered();
			refused_ = refused;
		}
		if (refused == told || (complained_ns && now_ns - complained_ns < complain_every_ns))
			continue;
		std::vector<std::string> why;

		for (std::size_t i = 0; i < refusals; i++)
			if (refused[i] > told[i])
				why.push_back(fmt::format("{} {}", refused[i] - told[i], refusal_text(static_cast<Refusal>(i))));
		spdlog::warn("probe: not answered: {} (the newest from {})", fmt::join(why, ", "), server_->newest_refused().text());
		told = refused;
		complained_ns = now_ns;
	}
}

void Probing::probe()
{
	std::uint64_t seen = 0;
	std::unique_ptr<Mesh> mesh;
	std::int64_t tell_ns = 0;

	for (;;) {
		std::optional<Order> fresh;
		{
			const std::scoped_lock lock(mutex_);

			if (seen != orders_)
				fresh = order_;
			seen = orders_;
		}
		if (fresh) {
			auto made = Mesh::make(*fresh, *nics_, ask_, mesh.get());

			if (!made)
				spdlog::error("probe: {}", made.error().text());
			else
				mesh = std::move(*made);
		}
		const std::int64_t due_ns = std::min(tell_ns, mesh ? mesh->due_ns() : tell_ns);
		const std::int64_t left_ns = std::max<std::int64_t>(due_ns - clock_ns(CLOCK_MONOTONIC), 0);
		const timespec wait = {static_cast<time_t>(left_ns / ns_per_s), static_cast<long>(left_ns % ns_per_s)};
		std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}};

		for (std::size_t i = 0; mesh && i < mesh->sockets().size(); i++)
			fds.push_back({mesh->sockets()[i].fd(), POLLIN, 0});
		if (ppoll(fds.data(), fds.size(), &wait, nullptr) > 0 && fds[0].revents)
			return;
		if (mesh)
			mesh->work();
		if (clock_ns(CLOCK_MONOTONIC) < tell_ns)
			continue;
		tell_ns = clock_ns(CLOCK_MONOTONIC) + tell_every_ns;

		auto news = std::make_shared<ProbeNews>();

		news->time_s = static_cast<double>(clock_ns(CLOCK_REALTIME)) / real_ns_per_s;
		if (mesh)
			mesh->tell(*news);
		{
			const std::scoped_lock lock(mutex_);

			news->places = places_;
			news->answered = answered_;
			news->refused = refused_;
		}
		tell_(std::move(news));
	}
}

} // namespace swift
