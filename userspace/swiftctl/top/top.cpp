// SPDX-License-Identifier: MIT
// The only file that knows ncurses.
#include "top.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#define NCURSES_NOMACROS 1
#include <ncurses.h>

#include "bpf_host.h"
#include "clock_ns.h"
#include "fd.h"
#include "flow_observer.h"
#include "interface.h"
#include "netns.h"
#include "say.h"
#include "system.h"
#include "telemetry_source.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

// Looks at the host, one after the other.
class Looks {
public:
	static Result<Looks> open(const TopOptions &options)
	{
		ASSIGN_OR_RETURN(auto observer,
				 FlowObserver::open(table_options(options.all), bpf_flow_storages));

		if (options.all_netns)
			observer.look_at(NetnsScope::all);
		Looks looks(std::move(observer));

		if (options.processes)
			looks.processes_ = std::make_shared<SocketProcesses>(Cgroups::find_mount());
		return looks;
	}

	Result<TopShot> look()
	{
		ASSIGN_OR_RETURN(auto seen, observer_.look());
		TopShot shot;

		shot.flows = std::move(seen.flows);
		if (seen.netns_trouble)
			shot.netns_trouble = seen.netns_trouble->text();
		if (processes_)
			shot.process_of = [all = processes_](std::uint32_t inode, const std::string &cgroup) {
				return all->find(inode, cgroup);
			};
		shot.time_ns = clock_ns(CLOCK_REALTIME);
		shot.module_loaded = module_loaded(*system_);
		const auto samples = telemetry();

		shot.summary = summarize(*shot.flows, samples.get(), verdict_options(*system_));
		return shot;
	}

private:
	explicit Looks(FlowObserver observer) : observer_(std::move(observer)) {}

	static FlowTableOptions table_options(bool all)
	{
		FlowTableOptions o;

		if (!all)
			o.ccs = {"swift", "swift-reno", "bpf_swift", "bpf_swift_v0", "bpf_timely", "bpf_gcn"};
		return o;
	}

	// Of the last interval; nullptr: not loaded, not for us, or the first look.
	std::unique_ptr<HistogramSource> telemetry()
	{
		auto opened = Telemetry::open(*bpf_);
		auto reading = opened ? opened->read_prefixes(this_netns_inode()) : Result<TelemetryReading>(opened.error());
		std::unique_ptr<HistogramSource> source;

		if (reading && before_)
			source = std::make_unique<TelemetrySource>(reading->since(*before_));
		before_ = reading ? std::optional(std::move(*reading)) : std::nullopt;
		return source;
	}

	std::unique_ptr<System> system_ = real_system();
	std::unique_ptr<BpfHost> bpf_ = real_bpf_host();
	FlowObserver observer_;
	std::shared_ptr<SocketProcesses> processes_;
	std::optional<TelemetryReading> before_;
};

volatile std::sig_atomic_t signal_came = 0; // while something was drawn

// The terminal, put back as it was in the end.
class Screen : NonCopyable {
public:
	Screen(bool colours, const sigset_t &signals) : screen_(newterm(nullptr, stdout, stdin)), signals_(signals)
	{
		if (!screen_)
			return;
		for (const int each : {SIGINT, SIGTERM, SIGHUP})
			signal(each, free_terminal);
		cbreak();
		noecho();
		nodelay(stdscr, true);
		keypad(stdscr, true);
		set_escdelay(50);
		curs_set(0);
		colours_ = colours && has_colors();
		if (colours_) {
			start_color();
			use_default_colors();
			for (const auto &[pair, colour] : {std::pair(Colour::red, COLOR_RED), {Colour::green, COLOR_GREEN},
							   {Colour::yellow, COLOR_YELLOW}, {Colour::magenta, COLOR_MAGENTA}})
				init_pair(static_cast<short>(pair), static_cast<short>(colour), -1);
		}
	}
	~Screen()
	{
		if (!screen_)
			return;
		interruptibly(endwin);
		delscreen(screen_);
	}

	explicit operator bool() const { return screen_ != nullptr; }

	void draw(const TopShot &shot, TopView &view) const
	{
		const int rows = getmaxy(stdscr), columns = getmaxx(stdscr);
		int y = 0;

		werase(stdscr);
		for (const TopLine &line : top_screen(shot, view, static_cast<std::size_t>(std::max(columns, 1)),
						      static_cast<std::size_t>(std::max(rows, 2)))) {
			wmove(stdscr, y++, 0);
			for (const TopSpan &s : line) {
				wattrset(stdscr, attributes(s));
				waddnstr(stdscr, s.text.c_str(), static_cast<int>(s.text.size()));
			}
		}
		interruptibly([] { return wrefresh(stdscr); });
	}

	// What was typed since the last call; true if there was anything.
	static bool keys(TopView &view)
	{
		bool any = false;

		for (int c = wgetch(stdscr); c != ERR; c = wgetch(stdscr)) {
			any = true;
			if (c != KEY_RESIZE)
				type(view, c);
		}
		return any;
	}

private:
	// A terminal that takes nothing (Ctrl-S) would have ncurses wait: what is on its way there goes.
	static void free_terminal(int)
	{
		signal_came = 1;
		tcflush(STDOUT_FILENO, TCOFLUSH);
		tcflow(STDOUT_FILENO, TCOOFF);
		tcflow(STDOUT_FILENO, TCOON);
	}

	template <typename Write> void interruptibly(const Write &write) const
	{
		sigprocmask(SIG_UNBLOCK, &signals_, nullptr);
		(void)write();
		sigprocmask(SIG_BLOCK, &signals_, nullptr);
	}

	[[nodiscard]] int attributes(const TopSpan &s) const
	{
		const int reverse = s.reverse ? static_cast<int>(A_REVERSE) : 0;

		if (s.colour == Colour::bold)
			return reverse | static_cast<int>(A_BOLD);
		if (s.colour == Colour::dim)
			return reverse | static_cast<int>(A_DIM);
		return reverse | (colours_ && s.colour != Colour::none ? COLOR_PAIR(static_cast<int>(s.colour)) : 0);
	}

	static void type(TopView &view, int c)
	{
		static constexpr std::array<std::pair<int, TopKey>, 13> named = {
			{{KEY_UP, TopKey::up}, {KEY_DOWN, TopKey::down}, {KEY_PPAGE, TopKey::page_up},
			 {KEY_NPAGE, TopKey::page_down}, {KEY_HOME, TopKey::home}, {KEY_END, TopKey::end},
			 {KEY_ENTER, TopKey::enter}, {'\n', TopKey::enter}, {'\r', TopKey::enter},
			 {KEY_BACKSPACE, TopKey::erase}, {'\b', TopKey::erase}, {0x7f, TopKey::erase},
			 {0x1b, TopKey::escape}}};

		for (const auto &[typed, key] : named)
			if (typed == c)
				return press(view, key);
		if (c > 0 && c < 0x7f)
			press(view, TopKey::character, static_cast<char>(c));
	}

	SCREEN *screen_;
	const sigset_t &signals_;
	bool colours_ = false;
};

Result<int> snapshot(Looks &looks, TopView &view, double interval_s)
{
	const StopSignals stop;
	auto shot = looks.look();

	if (shot && !stop.sleep(interval_s))
		shot = looks.look();
	if (!shot)
		return shot.error();
	const Terminal terminal = standard_output();
	std::string out;

	for (const TopLine &line : top_screen(*shot, view, terminal.columns, 0)) {
		for (const TopSpan &s : line)
			out += terminal.paint(s.text, s.colour);
		out += "\n";
	}
	return leave(out);
}

Result<int> watch(Looks &looks, TopView &view, double interval_s)
{
	const Terminal terminal = standard_output();

	if (!terminal.is_terminal || isatty(STDIN_FILENO) != 1)
		return Error{"this is no terminal; --once prints one look"};
	const StopSignals stop;
	const Fd signals(signalfd(-1, &stop.set(), SFD_CLOEXEC | SFD_NONBLOCK));
	ASSIGN_OR_RETURN(auto shot, looks.look());

	std::optional<Error> trouble;
	{
		const Screen screen(terminal.colours, stop.set());

		if (!screen)
			return Error{"this terminal is of no use (TERM); --once prints one look"};
		const auto interval_ns = static_cast<std::int64_t>(interval_s * 1e9);
		std::int64_t due_ns = clock_ns(CLOCK_MONOTONIC) + interval_ns;

		while (!view.leave) {
			screen.draw(shot, view);
			if (signal_came)
				break;
			const std::int64_t left_ms = (due_ns - clock_ns(CLOCK_MONOTONIC)) / 1'000'000;
			std::array<pollfd, 2> wait = {{{STDIN_FILENO, POLLIN, 0}, {signals.get(), POLLIN, 0}}};

			// A new size of the terminal interrupts it.
			if (poll(wait.data(), wait.size(), static_cast<int>(std::max<std::int64_t>(left_ms, 0) + 1)) < 0 &&
			    errno != EINTR)
				break;
			if (wait[1].revents || (wait[0].revents & (POLLHUP | POLLERR)))
				break;
			Screen::keys(view);
			if (clock_ns(CLOCK_MONOTONIC) < due_ns)
				continue;
			due_ns = std::max(due_ns + interval_ns, clock_ns(CLOCK_MONOTONIC) + interval_ns / 2);
			if (view.paused)
				continue;
			auto next = looks.look();

			if (!next) {
				trouble = next.error();
				break;
			}
			shot = std::move(*next);
		}
	}
	if (trouble)
		return *trouble;
	return exit_ok;
}

} // namespace

Result<int> run_top(const TopOptions &options)
{
	ASSIGN_OR_RETURN(const auto interval_s,
			 as_usage(parse_decimal("--interval", options.interval, 0.1, 3600)));
	const auto sort = parse_top_sort(options.sort);

	if (!sort)
		return usage_error(Error{"--sort", options.sort, "delay, fabric, host, rate, retrans"});
	RETURN_IF_ERROR(take_netns(options.netns, options.all_netns));
	ASSIGN_OR_RETURN(auto looks, Looks::open(options));
	TopView view;

	view.sort = *sort;
	view.filter = options.filter;
	return options.once ? snapshot(looks, view, interval_s) : watch(looks, view, interval_s);
}

} // namespace swift
