// SPDX-License-Identifier: MIT
#include "service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "clock_ns.h"
#include "clocks.h"
#include "collector.h"
#include "http.h"
#include "log.h"
#include "mesh_reader.h"
#include "netns.h"
#include "pace.h"
#include "policing.h"
#include "otlp_exporter.h"
#include "probing.h"
#include "tuning.h"

namespace swift {

namespace {

constexpr int exit_ok = 0;
constexpr int exit_failed = 1;

HostFacts host_facts()
{
	utsname u{};

	uname(&u);
	return {u.nodename, u.release};
}

void log_feed_event(const FeedEvent &e)
{
	spdlog::log(e.trouble ? spdlog::level::warn : spdlog::level::info, "{}: {}", e.iface, e.text);
}

class Timer {
public:
	Timer() : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

	void at(std::int64_t ns) const
	{
		itimerspec when{};

		when.it_value.tv_sec = ns / ns_per_s;
		when.it_value.tv_nsec = ns % ns_per_s;
		timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
	}
	void clear() const
	{
		std::uint64_t count = 0;

		while (read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR)
			continue;
	}
	[[nodiscard]] int fd() const { return fd_.get(); }

private:
	Fd fd_;
};

class Service {
public:
	Service(ServiceArguments arguments, const Config &config)
		: arguments_(std::move(arguments)), config_(config), facts_(host_facts()),
		  tuning_(*system_, [this](const Config::Tune &t) { return make_knob(t); }, config.tune),
		  policing_(*system_, real_places(*system_, variants_, this_netns(), knob_patience_s(config.collect.interval_s)),
			    this_netns(), config)
	{
	}
	int run();

private:
	[[nodiscard]] std::unique_ptr<TargetKnob> make_knob(const Config::Tune &config);
	Result<void> start();
	void collect();
	void took_a_look(std::shared_ptr<Snapshot> s, std::int64_t next_ns);
	void could_not_look(const Error &why);
	void keep_house();
	void read_mesh(MeshReader::Inputs inputs);
	void reload();
	bool take_signal(); // false: leave

	ServiceArguments arguments_;
	Config config_;
	HostFacts facts_;
	Store store_;
	Fd epoll_;
	Fd signals_;
	Timer collect_timer_;
	Timer house_timer_;
	std::unique_ptr<ClockThread> clocks_;
	std::optional<Collector> collector_;
	std::unique_ptr<System> system_ = real_system();
	std::unique_ptr<BpfHost> bpf_ = real_bpf_host();
	std::unique_ptr<Sockets> sockets_ = real_sockets();
	BpfVariants variants_{*system_, *sockets_, *bpf_};
	Tuning tuning_; // ends before what it stands on
	Policing policing_; // as does this
	Probing probing_{[this](std::shared_ptr<const ProbeNews> news) { store_.put(std::move(news)); }};
	std::unique_ptr<MeshReader> mesh_;
	std::unique_ptr<OtlpExporter> otlp_;
	std::unique_ptr<HttpServer> http_; // ends first: it reads what the others own
	std::int64_t due_ns_ = 0;
	Pace pace_;
	bool ready_ = false;
	std::string trouble_; // of the newest look, told once
	bool told_slow_ = false;
};

std::unique_ptr<TargetKnob> Service::make_knob(const Config::Tune &config)
{
	return config.knob == "module" ? sysctl_knob(*system_, this_netns()) :
					 bpf_knob(variants_, config.knob, config.prefix,
						  knob_patience_s(config_.collect.interval_s));
}

Result<void> Service::start()
{
	sigset_t set;
	rlimit files{};

	// Before the first thread, so that none of them gets one.
	sigemptyset(&set);
	for (const int s : {SIGTERM, SIGINT, SIGHUP})
		sigaddset(&set, s);
	sigprocmask(SIG_BLOCK, &set, nullptr);
	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);

	signals_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	if (!signals_ || !epoll_ || collect_timer_.fd() < 0 || house_timer_.fd() < 0)
		return errno_error("cannot wait for signals and timers", errno);
	for (const int fd : {signals_.get(), collect_timer_.fd(), house_timer_.fd()}) {
		epoll_event e{};

		e.events = EPOLLIN;
		e.data.fd = fd;
		if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) < 0)
			return errno_error("cannot wait for signals and timers", errno);
	}

	store_.set_config(config_);
	if (!config_.clocks.devices.empty())
		clocks_ = std::make_unique<ClockThread>(config_.clocks, log_feed_event);
	Collector::OwnClocks own_clocks;

	if (clocks_)
		own_clocks = [this] { return clocks_->rows(); };
	auto collector = Collector::open(config_.collect, std::move(own_clocks));

	if (!collector)
		return collector.error();
	collector_.emplace(std::move(*collector));
	auto inputs = ProbeInputs::read(config_.probe);

	if (!inputs)
		return inputs.error();
	if (auto started = probing_.start(config_.probe, std::move(*inputs)); !started)
		return started;
	for (const std::string &place : probing_.places())
		spdlog::info("answering probes on {}", place);
	auto mesh = MeshReader::read(config_.probe);

	if (!mesh)
		return mesh.error();
	read_mesh(std::move(*mesh));
	if (!config_.http.listen.empty()) {
		auto http = start_http(config_.http, store_, facts_);

		if (!http)
			return http.error();
		http_ = std::move(*http);
		for (const std::string &a : http_->addresses())
			spdlog::info("serving http{}://{}", config_.http.tls_certificate.empty() ? "" : "s", a);
	}
	if (!config_.otlp.endpoint.empty()) {
		auto otlp = OtlpExporter::start(config_.otlp, facts_, store_.http);

		if (!otlp)
			return Error{"otlp: " + otlp.error().text()};
		otlp_ = std::move(*otlp);
		spdlog::info("delivering to {} every {} s", config_.otlp.endpoint, config_.otlp.interval_s);
	}
	due_ns_ = clock_ns(CLOCK_MONOTONIC);
	collect_timer_.at(due_ns_);
	house_timer_.at(due_ns_ + ns_per_s);
	return {};
}

void Service::took_a_look(std::shared_ptr<Snapshot> s, std::int64_t next_ns)
{
	const Totals &t = s->summary.totals;

	sd_notifyf(0, "%sSTATUS=%zu flows, %zu of swift's", ready_ ? "" : "READY=1\n", t.flows, t.swift_flows);
	if (!ready_)
		spdlog::info("ready: {} flows, {} of swift's; the module is {}loaded", t.flows, t.swift_flows,
			     s->module_loaded ? "" : "not ");
	ready_ = true;
	if (!trouble_.empty())
		spdlog::info("collection goes on");
	trouble_.clear();
	s->tune = tuning_.row();
	s->policy = policing_.row();
	s->probes = store_.probes();
	s->interval_ms = next_ns / 1'000'000;
	if (otlp_)
		otlp_->offer(s);
	store_.put(std::move(s));
}

// It serves all the same, and goes on trying: what is missing may come.
void Service::could_not_look(const Error &why)
{
	sd_notifyf(0, "%sSTATUS=cannot look at the flows: %s", ready_ ? "" : "READY=1\n", why.text().c_str());
	ready_ = true;
	if (why.text() != trouble_)
		spdlog::error("collection: {}", why.text());
	trouble_ = why.text();
	const double time_s = static_cast<double>(clock_ns(CLOCK_REALTIME)) / real_ns_per_s;

	tuning_.cannot_look(time_s);
	policing_.cannot_look(time_s);
	store_.fail({trouble_, time_s, collector_->stats(), tuning_.row(), policing_.row()});
}

void Service::collect()
{
	const auto interval_ns = static_cast<std::int64_t>(config_.collect.interval_s * 1e9);
	auto s = collector_->collect([] { sd_notify(0, "WATCHDOG=1"); });

	if (s) {
		const auto flows = of_own_targets((*s)->flows);

		tuning_.observe(*flows, [this](const auto &show) { return collector_->visit_flows(show); }, (*s)->time_s);
		policing_.observe(*flows, (*s)->time_s);
	}

	const std::int64_t rest_ns =
		pace_.rest_ns(static_cast<std::int64_t>(collector_->cpu_s() * 1e9),
			      clock_ns(CLOCK_PROCESS_CPUTIME_ID), config_.collect.max_cpu_percent);
	const bool slow = rest_ns > interval_ns;

	if (s)
		took_a_look(std::move(*s), std::max(interval_ns, rest_ns));
	else
		could_not_look(s.error());
	if (http_)
		http_->wake_streams();
	if (slow && !told_slow_)
		spdlog::warn("a look at the flows takes {:.0f} ms of CPU time, with what else was done {:.0f}: more than "
			     "{:g} % of an interval (collect.max_cpu_percent); they come every {:.1f} s",
			     collector_->cpu_s() * 1e3, static_cast<double>(pace_.cost_ns()) / 1e6,
			     config_.collect.max_cpu_percent, static_cast<double>(rest_ns) / 1e9);
	told_slow_ |= slow;

	const std::int64_t now = clock_ns(CLOCK_MONOTONIC);

	// On the grid of intervals, but never two in a row to make up for a late one.
	due_ns_ += std::max(interval_ns, rest_ns);
	if (due_ns_ <= now)
		due_ns_ = now + interval_ns;
	collect_timer_.at(due_ns_);
}

// The watchdog is for a loop that hangs; whether it can look at the flows, /healthz tells.
void Service::keep_house()
{
	if (http_)
		http_->end_overdue(clock_ns(CLOCK_MONOTONIC));
	sd_notify(0, "WATCHDOG=1");
	house_timer_.at(clock_ns(CLOCK_MONOTONIC) + ns_per_s);
}

void Service::read_mesh(MeshReader::Inputs inputs)
{
	if (mesh_ && mesh_->does(config_.probe, inputs))
		return;
	mesh_.reset(); // which tells nothing any more
	if (config_.probe.mesh.empty())
		store_.put_mesh({});
	else
		mesh_ = std::make_unique<MeshReader>(config_.probe, std::move(inputs.post), std::move(inputs.authorization),
						     [this](std::vector<ProbePairRow> pairs) { store_.put_mesh(std::move(pairs)); });
}

void Service::reload()
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", static_cast<long long>(clock_ns(CLOCK_MONOTONIC) / 1000));
	auto wanted = load_config(arguments_.config_file, arguments_.overrides, arguments_.config_optional);
	auto changes = wanted ? config_changes(config_, *wanted) : Result<std::vector<std::string>>(wanted.error());
	auto inputs = changes ? ProbeInputs::read(wanted->probe) : Result<ProbeInputs>(changes.error());
	auto mesh = inputs ? MeshReader::read(wanted->probe) : Result<MeshReader::Inputs>(inputs.error());
	auto probing = mesh ? probing_.prepare(wanted->probe, std::move(*inputs)) : Result<Probing::Change>(mesh.error());
	auto renewed = !probing ? Result<std::unique_ptr<HttpServer>>(probing.error()) :
		       http_	? http_->renewed() :
				  Result<std::unique_ptr<HttpServer>>(nullptr);

	if (!renewed) {
		spdlog::error("reload: {}; everything stays as it was", renewed.error().text());
	} else {
		if (*renewed) {
			http_ = std::move(*renewed);
			changes->emplace_back("the files of certificate, key or token have a new content");
		}
		config_ = *wanted;
		store_.set_config(config_);
		set_log_level(config_.log);
		collector_->reconfigure(config_.collect);
		tuning_.reconfigure(config_.tune);
		policing_.reconfigure(config_);
		const std::vector<std::string> answered_on = probing_.places();

		if (probing_.apply(std::move(*probing)) && changes->empty())
			changes->emplace_back("the files of probe's peers or keys have a new content");
		for (const std::string &place : probing_.places())
			if (std::find(answered_on.begin(), answered_on.end(), place) == answered_on.end())
				changes->emplace_back("answering probes on " + place);
		read_mesh(std::move(*mesh));
		told_slow_ = false;
		for (const std::string &text : *changes)
			spdlog::info("reload: {}", text);
		if (changes->empty())
			spdlog::info("reload: nothing has changed");
		due_ns_ = clock_ns(CLOCK_MONOTONIC);
		collect_timer_.at(due_ns_);
	}
	sd_notify(0, "READY=1");
}

bool Service::take_signal()
{
	signalfd_siginfo info{};

	while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGHUP)
			return false;
		reload();
	}
	return true;
}

int Service::run()
{
	if (auto started = start(); !started) {
		spdlog::error("{}", started.error().text());
		return exit_failed;
	}
	for (;;) {
		std::array<epoll_event, 3> events{};
		const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);

		if (n < 0 && errno != EINTR) {
			spdlog::error("{}", errno_error("cannot wait for events", errno).text());
			return exit_failed;
		}
		for (int i = 0; i < n; i++) {
			const int fd = events[static_cast<std::size_t>(i)].data.fd;

			if (fd == signals_.get() && !take_signal()) {
				sd_notify(0, "STOPPING=1");
				tuning_.end("swiftd leaves");
				policing_.leave();
				spdlog::info("leaving");
				return exit_ok;
			}
			if (fd == collect_timer_.fd()) {
				collect_timer_.clear();
				collect();
			} else if (fd == house_timer_.fd()) {
				house_timer_.clear();
				keep_house();
			}
		}
	}
}

} // namespace

int run_service(const ServiceArguments &arguments, const Config &config)
{
	start_log(config.log);
	return Service(arguments, config).run();
}

Result<void> check_files(const Config &config)
{
	if (const auto inputs = ProbeInputs::read(config.probe); !inputs)
		return inputs.error();
	if (const auto mesh = MeshReader::read(config.probe); !mesh)
		return mesh.error();
	if (auto good = check_http_files(config.http); !good)
		return good;
	if (const auto header = OtlpExporter::read_authorization(config.otlp); !header)
		return header.error();
	return {};
}

int run_once(const Config &config)
{
	start_log(config.log);
	auto collector = Collector::open(config.collect, {});

	if (!collector) {
		spdlog::error("{}", collector.error().text());
		return exit_failed;
	}
	auto first = collector->collect();
	const auto interval_ns = static_cast<std::int64_t>(config.collect.interval_s * 1e9);
	const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + interval_ns;
	const timespec when = {until / ns_per_s, until % ns_per_s};

	while (first && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR)
		continue;
	auto second = first ? collector->collect() : std::move(first);

	if (!second) {
		spdlog::error("{}", second.error().text());
		return exit_failed;
	}
	const std::string text =
		summary_json(**second, host_facts()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);

	return say(text + "\n");
}

int say(const std::string &text)
{
	if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
		return exit_ok;
	fmt::print(stderr, "swiftd: {}\n", errno_error("cannot write to the standard output", errno).text());
	return exit_failed;
}

} // namespace swift
