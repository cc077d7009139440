// SPDX-License-Identifier: MIT
// The checks of `swiftctl doctor`, from the kernel outwards to the wire. Each is a few
// lines: read, judge, say. Thresholds are next to the check that uses them.
#include "doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "changes.h"
#include "diag.h"
#include "shell_word.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

constexpr std::int64_t large = 1LL << 62;
constexpr std::uint16_t default_peer_port = 22; // a refused connection measures as well
constexpr std::uint64_t tso_rtt_us = 512; // 2^tcp_tso_rtt_log of its default, 9
constexpr std::uint64_t least_gso = 8192; // bytes; smaller bursts cost too much CPU
constexpr std::int64_t long_backlog = 4000; // packets; of a longer one the last wait too long
constexpr std::uint64_t most_dropped = 1000000; // packets for each one that a host may drop

std::string whole_us(std::uint64_t ns)
{
	return fmt::format("{:.{}f} us", static_cast<double>(ns) / 1000, ns < 100000 ? 1 : 0);
}

std::optional<std::int64_t> number(const Result<std::string> &text)
{
	if (!text)
		return std::nullopt;
	const auto v = parse_int("", trim(*text), -large, large);

	return v ? std::optional(*v) : std::nullopt;
}

struct Peer {
	std::string host;
	std::uint16_t port = default_peer_port;
};

// host, host:port, v6, [v6]:port
Result<Peer> parse_peer(const std::string &text)
{
	Peer peer{text};
	std::optional<std::string> port;

	if (text.starts_with('[')) {
		const auto close = text.find(']');

		if (close == std::string::npos ||
		    (close + 1 != text.size() && text[close + 1] != ':'))
			return Error{"--peer", text, "ADDR, ADDR:PORT or [ADDR]:PORT"};
		peer.host = text.substr(1, close - 1);
		if (close + 1 < text.size())
			port = text.substr(close + 2);
	} else if (std::count(text.begin(), text.end(), ':') == 1) {
		peer.host = text.substr(0, text.find(':'));
		port = text.substr(text.find(':') + 1);
	}
	if (port) {
		ASSIGN_OR_RETURN(auto n, parse_int("--peer port", *port, 1, 65535));

		peer.port = static_cast<std::uint16_t>(n);
	}
	if (peer.host.empty())
		return Error{"--peer", text, "ADDR, ADDR:PORT or [ADDR]:PORT"};
	return peer;
}

class Doctor {
public:
	Doctor(const DoctorHost &host, const DoctorOptions &options, const BpfClockTable &bpf)
		: system_(host.system), nics_(host.nics), sockets_(host.sockets), options_(options), bpf_(bpf)
	{
	}

	Result<std::vector<Finding>> run()
	{
		RETURN_IF_ERROR(prepare());
		kernel();
		timers();
		module();
		congestion_control();
		tcp_options();
		memory();
		backlog();
		target();
		echo();
		credit();
		bursts();
		interfaces();
		return std::move(findings_);
	}

private:
	void add(Severity severity, std::string check, std::string seen, std::string why = {},
		 std::string fix = {})
	{
		findings_.push_back({severity, std::move(check), std::move(seen), std::move(why),
				     std::move(fix)});
	}

	std::string swift_sysctl(std::string_view name) const
	{
		auto text = read_sysctl(system_, std::string(sysctl_prefix) + std::string(name));

		return text ? *text : std::string();
	}

	// The value, or the module's default while it is not loaded.
	std::int64_t swift_number(std::string_view name) const
	{
		const auto v = number(read_sysctl(system_, std::string(sysctl_prefix) + std::string(name)));

		return v ? *v : find_tunable(name)->fallback;
	}

	Result<void> prepare()
	{
		target_ns_ = static_cast<std::uint64_t>(swift_number("base_target_ns"));
		RETURN_IF_ERROR(take_int(target_ns_, "--target-ns", options_.target_ns, 1000, 1000000000));
		if (!options_.peer.empty()) {
			ASSIGN_OR_RETURN(peer_, parse_peer(options_.peer));
		}
		ifaces_ = options_.ifaces;
		for (const std::string &dev : ifaces_)
			if (dev.empty() || dev.find('/') != std::string::npos)
				return Error{"--iface: not an interface's name", dev};
		if (ifaces_.empty())
			find_interfaces();
		measure_idle_rtt();
		return {};
	}

	// Real: a device stands behind it. Up: its flags say so.
	void find_interfaces()
	{
		const auto all = system_.list_dir("/sys/class/net");

		if (!all)
			return;
		for (const std::string &dev : *all) {
			const std::string dir = "/sys/class/net/" + dev;
			const auto state = system_.read_file(dir + "/operstate");

			if (system_.exists(dir + "/device") && state && trim(*state) != "down")
				ifaces_.push_back(dev);
		}
	}

	void measure_idle_rtt()
	{
		if (peer_) {
			auto handshake = sockets_.handshake(peer_->host, peer_->port);

			if (handshake)
				idle_ns_ = handshake->rtt_ns;
			else
				add(Severity::warn, "peer", handshake.error().text(),
				    "the idle RTT was not measured", "");
			if (handshake)
				peer_credit_ = handshake->credit;
			idle_from_ = fmt::format("TCP handshakes with {}", options_.peer);
			return;
		}

		auto sockets = sockets_.tcp_sockets(1U << 1);

		if (!sockets)
			return;
		std::set<Address> own;

		for (const Flow &f : *sockets)
			own.insert(f.local.address.unmapped());
		for (const Flow &f : *sockets) {
			// What stays within the host, so that its other end is seen as well, is no path for swift.
			if (own.contains(f.remote.address.unmapped()))
				continue;
			swift_flows_ += f.is_swift() && f.swift;
			credit_flows_ += f.is_swift() && f.swift && f.swift->credit != Credit::none;
			if (!f.tcp || !f.tcp->has_min_rtt())
				continue;
			const std::uint64_t ns = std::uint64_t{f.tcp->min_rtt_us} * 1000;

			idle_ns_ = idle_ns_ ? std::min(*idle_ns_, ns) : ns;
		}
		idle_from_ = "the smallest min_rtt of the flows that exist now";
	}

	void kernel()
	{
		const auto release = system_.read_file("/proc/sys/kernel/osrelease");

		if (!release) {
			add(Severity::fail, "kernel", release.error().text());
			return;
		}
		release_ = std::string(trim(*release));

		const auto parts = split(release_, '.');
		const auto major = parse_int("", parts[0], 0, 1000);
		const std::string minor_text =
			parts.size() > 1 ? parts[1].substr(0, parts[1].find_first_not_of("0123456789")) : "";
		const auto minor = parse_int("", minor_text, 0, 100000);

		if (!major || !minor)
			add(Severity::warn, "kernel", release_ + ", not a version that swiftctl can read");
		else if (*major < 6 || (*major == 6 && *minor < 1))
			add(Severity::fail, "kernel", release_, "tcp_swift needs Linux 6.1 or newer");
		else
			add(Severity::ok, "kernel", release_);
	}

	// The text of the kernel's configuration, if this host keeps it.
	std::string kernel_config()
	{
		if (system_.exists("/proc/config.gz"))
			if (auto r = system_.run({"gzip", "-dc", "/proc/config.gz"}); r && r->status == 0)
				return r->out;
		auto text = system_.read_file("/boot/config-" + release_);

		return text ? *text : std::string();
	}

	static std::string option(const std::string &config, const std::string &name)
	{
		for (const std::string &line : split(config, '\n'))
			if (line.starts_with(name + "="))
				return line.substr(name.size() + 1);
		return {};
	}

	void timers()
	{
		const std::string config = kernel_config();
		const auto hz = parse_int("", option(config, "CONFIG_HZ"), 1, 100000);
		const auto clock = system_.read_file(
			"/sys/devices/system/clocksource/clocksource0/current_clocksource");

		if (config.empty())
			add(Severity::warn, "hz", "unknown: no /proc/config.gz and no /boot/config-" + release_,
			    "swift does not need it, but a slow tick makes retransmission timers coarse");
		else if (hz && *hz < 250)
			add(Severity::warn, "hz", fmt::format("{}", *hz),
			    fmt::format("retransmission and probe timers round up to {} ms", 1000 / *hz),
			    "use a kernel with CONFIG_HZ=250 or more");
		else if (hz)
			add(Severity::ok, "hz", fmt::format("{}", *hz));

		const auto timer_list = system_.read_file("/proc/timer_list");
		const bool active = timer_list && timer_list->find("hres_active    : 1") != std::string::npos;
		const bool off = (timer_list && !active &&
				  timer_list->find("hres_active") != std::string::npos) ||
				 (!timer_list && !config.empty() &&
				  option(config, "CONFIG_HIGH_RES_TIMERS") != "y");

		if (off)
			add(Severity::fail, "hrtimers", "high-resolution timers are off",
			    "windows below one packet are paced by them: at a tick's grain they cannot be",
			    "boot without highres=off, on a kernel with CONFIG_HIGH_RES_TIMERS=y");
		else if (active || !config.empty())
			add(Severity::ok, "hrtimers", active ? "on" : "on (from the kernel's configuration)");

		if (!clock)
			return;
		const std::string name(trim(*clock));
		static constexpr std::array<std::string_view, 4> slow = {"hpet", "acpi_pm", "jiffies",
									 "refined-jiffies"};

		const auto is_slow = [](const std::string &source) {
			return std::find(slow.begin(), slow.end(), source) != slow.end();
		};

		if (!is_slow(name)) {
			add(Severity::ok, "clocksource", name);
			return;
		}
		const auto available =
			system_.read_file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
		const auto all = available ? words(*available) : std::vector<std::string>();
		const auto better = std::find_if_not(all.begin(), all.end(), is_slow);
		const std::string why = "each reading costs a microsecond or more, several times per packet";

		if (better != all.end())
			add(Severity::warn, "clocksource", name, why,
			    fmt::format("echo {} > /sys/devices/system/clocksource/clocksource0/current_clocksource",
					*better));
		else
			add(Severity::warn, "clocksource", name,
			    why + "; the kernel has no faster one here: dmesg says why not tsc");
	}

	// What runs in the module's place: by the names that ours have, as not all take clocks.
	[[nodiscard]] std::set<std::string> stand_ins() const
	{
		if (module_loaded(system_))
			return {};
		std::set<std::string> names(bpf_.variants.begin(), bpf_.variants.end());
		const auto available = read_sysctl(system_, "net.ipv4.tcp_available_congestion_control");

		for (std::string &name : available ? words(*available) : std::vector<std::string>())
			if (name.starts_with("bpf_"))
				names.insert(std::move(name));
		return names;
	}

	void module()
	{
		if (const auto names = stand_ins(); !names.empty()) {
			add(Severity::ok, "module", fmt::format("not loaded; in BPF: {}", fmt::join(names, ", ")));
			return;
		}
		if (!module_loaded(system_)) {
			const auto found = system_.run({"modinfo", "-n", "tcp_swift"});
			const bool installed = found && found->status == 0;

			add(Severity::fail, "module",
			    installed ? "tcp_swift is installed, not loaded" : "tcp_swift is not installed",
			    "there is no congestion control named swift",
			    installed ? "swiftctl enable" : "swiftctl enable --module /path/to/tcp_swift.ko");
			return;
		}
		add(Severity::ok, "module", "tcp_swift is loaded");

		std::size_t good = 0;
		std::vector<std::string_view> absent;

		for (const Tunable &t : tunables()) {
			const std::string name = std::string(sysctl_prefix) + std::string(t.name);
			auto text = read_sysctl(system_, name);

			if (!text && !has_sysctl(system_, name))
				absent.push_back(t.name);
			else if (!text)
				add(Severity::fail, "sysctl", text.error().text(),
				    "module and swiftctl are of different versions");
			else if (auto checked = t.check(*text); !checked)
				add(Severity::warn, "sysctl", checked.error().text(),
				    "module and swiftctl are of different versions");
			else
				good++;
		}
		// A package that is newer than the module it finds loaded is no fault.
		if (!absent.empty())
			add(absent.size() < tunables().size() ? Severity::warn : Severity::fail, "sysctl",
			    fmt::format("{}* without {}", sysctl_prefix, fmt::join(absent, ", ")),
			    "the module that is loaded is older than swiftctl, and does without",
			    "rmmod tcp_swift && modprobe tcp_swift   # once no socket uses it");
		if (good == tunables().size())
			add(Severity::ok, "sysctl", fmt::format("all {} of {}* readable", good, sysctl_prefix));
	}

	void congestion_control()
	{
		const auto now = read_sysctl(system_, "net.ipv4.tcp_congestion_control");
		const auto allowed = read_sysctl(system_, "net.ipv4.tcp_allowed_congestion_control");

		if (!now) {
			add(Severity::fail, "default-cc", now.error().text());
			return;
		}
		std::set<std::string> ours = stand_ins();
		const bool by_bpf = !ours.empty();

		if (!by_bpf)
			ours.emplace(cc_name);
		if (ours.contains(*now)) {
			add(Severity::ok, "default-cc", *now);
			return;
		}

		const auto list = allowed ? words(*allowed) : std::vector<std::string>();
		const bool may_ask = std::any_of(list.begin(), list.end(),
						 [&](const std::string &name) { return ours.contains(name); });
		const std::string names = fmt::format("{}", fmt::join(ours, ", "));

		add(Severity::warn, "default-cc", *now,
		    may_ask ? fmt::format("only sockets that ask for {} get it", names) :
			      fmt::format("new connections do not use {}, and only root may ask for it", names),
		    by_bpf ? fmt::format("sysctl -w {}={}", default_cc_sysctl, *ours.begin()) : "swiftctl enable");
	}

	void tcp_options()
	{
		for (const auto &[name, why] :
		     {std::pair("net.ipv4.tcp_timestamps",
				"without timestamps an ACK of a retransmission is ambiguous, and its RTT is lost"),
		      std::pair("net.ipv4.tcp_sack", "without SACK each loss in a window costs a round trip")}) {
			const auto v = number(read_sysctl(system_, name));
			const std::string check = std::string(name).substr(9);

			if (v && *v == 0)
				add(Severity::warn, check, "off", why, fmt::format("sysctl -w {}=1", name));
			else if (v)
				add(Severity::ok, check, "on");
		}
	}

	void memory()
	{
		const auto limits_text = read_sysctl(system_, "net.ipv4.tcp_mem");
		const auto sockstat = system_.read_file("/proc/net/sockstat");

		if (!limits_text || !sockstat)
			return;

		const auto limits = words(*limits_text);
		std::optional<std::int64_t> used;

		for (const std::string &line : split(*sockstat, '\n')) {
			const auto parts = words(line);

			for (std::size_t i = 1; i + 1 < parts.size(); i++)
				if (parts[0] == "TCP:" && parts[i] == "mem")
					used = number(parts[i + 1]);
		}

		const auto pressure = limits.size() == 3 ? number(limits[1]) : std::nullopt;

		if (!used || !pressure)
			return;
		if (*used >= *pressure)
			add(Severity::warn, "tcp-mem",
			    fmt::format("{} pages used, pressure begins at {}", *used, *pressure),
			    "TCP shrinks its buffers: windows are no longer swift's",
			    fmt::format("sysctl -w net.ipv4.tcp_mem='{} {} {}'", *pressure, *pressure * 2,
					*pressure * 3));
		else
			add(Severity::ok, "tcp-mem",
			    fmt::format("{} of {} pages used", *used, *pressure));
	}

	// /proc/net/softnet_stat: a line per CPU, hexadecimal; packets, and drops.
	void backlog()
	{
		const auto text = system_.read_file("/proc/net/softnet_stat");
		const auto limit = number(read_sysctl(system_, "net.core.netdev_max_backlog"));
		std::uint64_t packets = 0, drops = 0;

		if (!text)
			return;
		for (const std::string &line : split(*text, '\n')) {
			const auto parts = words(line);

			if (parts.size() > 1) {
				packets += std::strtoull(parts[0].c_str(), nullptr, 16);
				drops += std::strtoull(parts[1].c_str(), nullptr, 16);
			}
		}
		const std::string seen = fmt::format("{} of {} packets dropped since boot", drops, packets);

		if (drops == 0)
			add(Severity::ok, "backlog", "no drops since boot");
		else if (drops <= packets / most_dropped)
			add(Severity::ok, "backlog", seen);
		else if (!limit || *limit < long_backlog)
			add(Severity::warn, "backlog", seen, "the host itself loses packets before TCP sees them",
			    fmt::format("sysctl -w net.core.netdev_max_backlog={}", long_backlog));
		else
			add(Severity::warn, "backlog", seen,
			    fmt::format("the host itself loses packets before TCP sees them, or did before "
					"net.core.netdev_max_backlog was {}; if it still does, let more CPUs take them "
					"(RSS, RPS)",
					*limit));
	}

	[[nodiscard]] std::string policy() const
	{
		const std::string said = !options_.target_ns.empty() ? "static" : swift_sysctl("target_policy");

		return said.empty() ? "base_rtt_plus" : said; // the default
	}

	// What flows aim at on the path whose idle RTT is known: learnt, or as it is set.
	[[nodiscard]] std::uint64_t aim_ns() const
	{
		if (!idle_ns_ || policy() == "static")
			return target_ns_;
		if (policy() == "base_rtt")
			return *idle_ns_;

		const auto room_ns = static_cast<std::uint64_t>(swift_number("rtt_epsilon_ns"));

		return std::max(target_ns_, *idle_ns_ + room_ns);
	}

	void target()
	{
		const std::string shown = policy();
		const std::string seen = fmt::format("policy {}, base target {}", shown, whole_us(target_ns_));

		if (!idle_ns_) {
			add(shown == "static" ? Severity::warn : Severity::ok, "target",
			    seen + "; idle RTT unknown",
			    shown == "static" ? "a static target below the idle RTT sends every flow to min_cwnd" :
						"",
			    shown == "static" ? "swiftctl doctor --peer ADDR[:PORT]" : "");
			return;
		}

		const std::string with = fmt::format("{}; idle RTT {} ({})", seen, whole_us(*idle_ns_), idle_from_);
		const std::string learn = fmt::format("sysctl -w {}target_policy=base_rtt_plus", sysctl_prefix);

		if (shown == "static" && target_ns_ < *idle_ns_)
			add(Severity::fail, "target", with,
			    "the target is below the idle RTT: flows will collapse to min_cwnd", learn);
		else if (shown == "static" && target_ns_ < *idle_ns_ + *idle_ns_ / 4)
			add(Severity::warn, "target", with,
			    "less than a quarter above the idle RTT: noise alone will hold flows down", learn);
		else
			add(Severity::ok, "target", with);

		const auto guard = static_cast<std::uint64_t>(swift_number("max_rtt_ns"));

		if (*idle_ns_ > guard)
			add(Severity::warn, "guard",
			    fmt::format("idle RTT {} is above max_rtt_ns, {}", whole_us(*idle_ns_), whole_us(guard)),
			    "such flows run Reno: for swift this is no datacenter path",
			    fmt::format("sysctl -w {}max_rtt_ns={}", sysctl_prefix, *idle_ns_ * 2));
	}

	void echo()
	{
		if (!module_loaded(system_))
			return;
		if (swift_number("echo") == 1)
			add(Severity::ok, "echo", "on for connections whose peer has it on too");
		else
			add(Severity::warn, "echo", "off",
			    "the peer's delay counts as fabric delay: a slow receiver looks like a slow network",
			    fmt::format("sysctl -w {}echo=1   # at both ends; RFC 6994 experiment, so off by default",
					sysctl_prefix));
	}

	// Both ends: this one lends, and peers are asked to.
	void credit()
	{
		if (!module_loaded(system_))
			return;
		const std::string both = fmt::format("sysctl -w {}credit=1   # at both ends, before connections are made",
						     sysctl_prefix);

		credit_on_ = swift_number("credit") == 1;
		if (!credit_on_) {
			add(Severity::ok, "credit", "off: receivers do not lend their links");
			return;
		}
		add(Severity::ok, "credit", "on for connections whose peer has it on too");
		if (peer_credit_ && *peer_credit_ == Credit::none)
			add(Severity::warn, "peer credit", options_.peer + " does not negotiate it",
			    "what goes there waits for no credit, and what comes from there is lent none", both);
		else if (peer_credit_)
			add(Severity::ok, "peer credit", options_.peer + " negotiates it");
		else if (peer_)
			add(Severity::ok, "peer credit",
			    fmt::format("not known: {} accepts no connection of swift", options_.peer));
		else if (swift_flows_ > 0 && credit_flows_ == 0)
			add(Severity::warn, "peer credit",
			    fmt::format("none of {} flows negotiated it", swift_flows_),
			    "their peers have it off, or they are older than it is here", both);
		else if (swift_flows_ > 0)
			add(Severity::ok, "peer credit",
			    fmt::format("{} of {} flows negotiated it", credit_flows_, swift_flows_));
	}

	// What a device's link is lent by; a driver's word goes before the operator's.
	void link_rate(const std::string &dev)
	{
		if (!credit_on_)
			return;
		const std::string dir = "/sys/class/net/" + dev;
		const auto mbps = number(system_.read_file(dir + "/speed"));
		const auto entries = system_.list_dir(dir);
		// What is software all the way down names a rate that is nobody's.
		const bool real = system_.exists(dir + "/device") ||
				  (entries && std::any_of(entries->begin(), entries->end(), [](const std::string &e) {
					   return e.starts_with("lower_");
				   }));
		const std::int64_t said = swift_number("link_mbps");

		if (real && mbps && *mbps > 0)
			add(Severity::ok, dev + " credit", fmt::format("lends {} Mb/s, as its driver says", *mbps));
		else if (said > 0)
			add(Severity::ok, dev + " credit", fmt::format("lends {} Mb/s, as link_mbps says", said));
		else
			add(Severity::warn, dev + " credit", "its driver tells no rate",
			    "nothing is lent there: who sends through it goes by Swift alone",
			    fmt::format("sysctl -w {}link_mbps=10000   # Mb/s, of all links whose driver tells none",
					sysctl_prefix));
	}

	void bursts()
	{
		const auto log = number(read_sysctl(system_, "net.ipv4.tcp_tso_rtt_log"));

		bursts_capped_ = log && *log == 0;
		if (bursts_capped_)
			add(Severity::ok, "bursts", "tcp_tso_rtt_log is 0: packets follow the pacing rate");
	}

	void interfaces()
	{
		if (ifaces_.empty())
			add(Severity::warn, "interfaces", "none that is real and up",
			    "nothing to say about queues and NICs", "swiftctl doctor --iface DEV");
		for (const std::string &dev : ifaces_) {
			const std::string dir = "/sys/class/net/" + dev;

			if (!system_.exists(dir)) {
				add(Severity::fail, dev, "no such interface");
				continue;
			}
			qdisc(dev);
			link_rate(dev);
			burst_size(dev);
			coalescing(dev);
			stamps(dev);
			mtu(dev);
		}
	}

	void qdisc(const std::string &dev)
	{
		const auto root = root_qdisc(system_, dev);

		if (!root)
			add(Severity::warn, dev + " qdisc", root.error().text());
		else if (root->value == "fq" || root->value == "mq(fq)")
			add(Severity::ok, dev + " qdisc", root->value);
		else
			add(Severity::warn, dev + " qdisc", root->value,
			    "flows wait behind others' bursts; fq lets them take turns (TCP's own timer paces Swift, "
			    "with or without fq)",
			    root->by_hand ? fmt::format("tc qdisc replace dev {} root fq", shell_word(dev)) :
					    fmt::format("swiftctl enable --iface {}", shell_word(dev)));
	}

	// The kernel sends up to gso_max_size at once, whatever the pacing rate, below 512 us.
	void burst_size(const std::string &dev)
	{
		if (bursts_capped_ || (idle_ns_ && *idle_ns_ > tso_rtt_us * 1000))
			return;

		const auto gso = gso_max_size(system_, dev);

		if (!gso)
			return;

		const std::uint64_t bytes = *gso;
		const auto mbps = number(system_.read_file("/sys/class/net/" + dev + "/speed"));
		const std::uint64_t room_ns = aim_ns() / 4;

		if (!mbps || *mbps <= 0) {
			add(Severity::ok, dev + " bursts",
			    fmt::format("gso_max_size {}, speed unknown", bytes));
			return;
		}

		const auto speed = static_cast<std::uint64_t>(*mbps);
		const std::uint64_t burst_ns = bytes * 8000 / speed;

		if (burst_ns <= room_ns) {
			add(Severity::ok, dev + " bursts",
			    fmt::format("gso_max_size {} is {} at {} Mb/s", bytes, whole_us(burst_ns), speed));
			return;
		}

		const std::uint64_t fitting = room_ns * speed / 8000 / 4096 * 4096;

		add(Severity::warn, dev + " bursts",
		    fmt::format("gso_max_size {} is {} at {} Mb/s, with a target of {}", bytes, whole_us(burst_ns),
				speed, whole_us(aim_ns())),
		    "bursts queue in the switch, whatever the pacing rate, and other flows see the delay",
		    (fitting < least_gso ? "" :
					   fmt::format("ip link set dev {} gso_max_size {}   # or: ", shell_word(dev), fitting)) +
			    "sysctl -w net.ipv4.tcp_tso_rtt_log=0");
	}

	void coalescing(const std::string &dev)
	{
		const auto c = nics_.coalescing(dev);

		if (!c) {
			add(Severity::ok, dev + " coalescing", "no settings on this driver");
			return;
		}

		const std::uint64_t most_us = std::max<std::uint64_t>(aim_ns() / 8000, 4);
		const std::string seen =
			fmt::format("rx-usecs {}{}", c->rx_usecs, c->adaptive_rx ? ", adaptive" : "");

		if (c->adaptive_rx || c->rx_usecs > most_us)
			add(Severity::warn, dev + " coalescing", seen,
			    fmt::format("interrupts that wait look like delay, against a target of {}",
					whole_us(aim_ns())),
			    fmt::format("ethtool -C {}{} rx-usecs {}", shell_word(dev),
					c->adaptive_rx ? " adaptive-rx off" : "",
					std::min<std::uint64_t>(c->rx_usecs, most_us)));
		else
			add(Severity::ok, dev + " coalescing", seen);
	}

	// A NIC that stamps every packet, and the line of its clock that the module, or a BPF
	// variant, needs to make anything of the stamps.
	void stamps(const std::string &dev)
	{
		const auto t = nics_.timestamps(dev);

		if (!t || !t->can_hw_rx_all || t->phc_index < 0) {
			add(Severity::ok, dev + " stamps",
			    "software only: delay between NIC and stack counts as fabric");
			return;
		}
		if (t->hw_rx_all_on)
			add(Severity::ok, dev + " stamps", fmt::format("hardware, /dev/ptp{}", t->phc_index));
		else
			add(Severity::warn, dev + " stamps",
			    fmt::format("hardware stamps possible (/dev/ptp{}), not on", t->phc_index),
			    "delay between NIC and stack counts as fabric",
			    fmt::format("swiftctl clock run --iface {}", shell_word(dev)));
		if (module_loaded(system_) || !bpf_.variants.empty())
			clock(dev, t->hw_rx_all_on);
	}

	void clock(const std::string &dev, bool stamps)
	{
		const auto clocks = module_loaded(system_) ? nics_.nic_clocks() :
							    Result<std::vector<NicClock>>(std::vector<NicClock>());
		const auto ifindex = number(system_.read_file("/sys/class/net/" + dev + "/ifindex"));
		const std::string check = dev + " clock";
		const std::string fix = fmt::format("swiftctl clock run --iface {}", shell_word(dev));
		const NicClock *line = nullptr;

		if (!clocks) {
			add(Severity::warn, check, clocks.error().text(),
			    "hardware stamps are of no use: module and swiftctl may be of different versions");
			return;
		}
		for (const NicClock &c : *clocks)
			if (ifindex && c.ifindex == *ifindex)
				line = &c;
		for (const BpfClock &c : bpf_.clocks)
			if (!line && ifindex && c.clock.ifindex == *ifindex)
				line = &c.clock;
		if (line && line->valid_ms > 0)
			add(Severity::ok, check,
			    fmt::format("fed, error at most {}", whole_us(line->line.error_ns)));
		else if (line)
			add(Severity::warn, check, "its line is stale: nobody feeds it any more",
			    "hardware stamps cannot be used, software ones are", fix);
		// Without stamps their own finding says it all.
		else if (stamps)
			add(Severity::warn, check, "no clock is fed",
			    "hardware stamps are on, but nobody knows what they mean: software ones are used",
			    fix);
	}

	void mtu(const std::string &dev)
	{
		const auto v = number(system_.read_file("/sys/class/net/" + dev + "/mtu"));

		if (v && *v < 1500)
			add(Severity::warn, dev + " mtu", fmt::format("{}", *v),
			    "small packets cost more CPU per byte; raise it if every link on the way carries more");
		else if (v)
			add(Severity::ok, dev + " mtu", fmt::format("{}", *v));
	}

	System &system_;
	Nics &nics_;
	Sockets &sockets_;
	const DoctorOptions &options_;
	const BpfClockTable &bpf_;
	std::vector<Finding> findings_;
	std::vector<std::string> ifaces_;
	std::optional<Peer> peer_;
	std::optional<std::uint64_t> idle_ns_;
	std::string idle_from_;
	std::string release_;
	std::uint64_t target_ns_ = 0;
	bool bursts_capped_ = false;
	bool credit_on_ = false;
	std::optional<Credit> peer_credit_; // of a connection to --peer
	std::size_t swift_flows_ = 0; // of those that are there now
	std::size_t credit_flows_ = 0; // that negotiated credit
};

} // namespace

Result<std::vector<Finding>> examine(const DoctorHost &host, const DoctorOptions &options, const BpfClockTable &bpf)
{
	return Doctor(host, options, bpf).run();
}

} // namespace swift
