// SPDX-License-Identifier: MIT
// The clock feeder: turns NICs' hardware stamping on, keeps the line from each NIC's
// clock to the host's and tells it to the module and to BPF variants, whatever NICs, drivers, other programs
// and the module do meanwhile. One thread, any number of NICs, driven by an event loop
// that it does not own: when fd() is readable, call dispatch().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clock_fit.h"
#include "clock_host.h"
#include "files.h"
#include "interface.h"
#include "nics.h"
#include "phc.h"
#include "stamping_memory.h"

namespace swift {

struct ClockFeederOptions {
	std::vector<std::string> ifaces; // none: all that can
	std::uint32_t interval_ms = 250;
	Keeper keeper = Keeper::tools; // of what it remembers
};

enum class FeedState {
	absent, // there is no such interface
	unfit, // it cannot stamp all packets, or has no clock to read
	yielded, // another program has changed its stamping
	failed, // an operation failed; it is tried again
	measuring, // too few readings yet
	no_module, // nor a BPF variant
	busy, // another feeder has it
	fed,
};
[[nodiscard]] std::string_view feed_state_text(FeedState s);

// Something that people may want to know; told once, not with every try.
struct FeedEvent {
	bool trouble = false;
	std::string iface;
	std::string what; // a short name that stays: "stamping", "fed", "stepped", ...
	std::string text;
};

struct FeedStatus {
	std::string iface;
	std::uint32_t ifindex = 0;
	int phc_index = -1;
	FeedState state = FeedState::absent;
	std::string trouble; // why it is not fed
	std::optional<ClockLine> line; // the newest
	bool module = false; // has it
	std::vector<std::string> variants; // in BPF, that have it
};

class ClockFeeder : NonCopyable {
public:
	using Tell = std::function<void(const FeedEvent &)>;

	ClockFeeder(Files &files, Nics &nics, ClockHost &host, ClockFeederOptions options, Tell tell);
	~ClockFeeder() { stop(); }

	// An Error: another feeder runs, or what is remembered cannot be read. NICs that are
	// not fit are no Error: status() tells, and they are looked at again.
	Result<void> start();
	[[nodiscard]] int fd() const { return host_.fd(); }
	void dispatch();
	// Takes the lines away and puts the stamping back.
	void stop();

	[[nodiscard]] std::vector<FeedStatus> status() const;

private:
	struct Nic {
		FeedStatus s;
		bool asked_for = false; // by name
		std::unique_ptr<PhcReader> phc;
		ClockFit fit;
		std::optional<Stamping> before; // our change; written is what the driver made of it
		Stamping written;
		std::int64_t due_ns = 0; // next reading, or next try
		std::int64_t check_ns = 0; // next look at the stamping
		std::int64_t send_ns = 0; // not before, after the module said no
		std::int64_t gap_ns = 0; // to the next reading
		std::int64_t step_told_ns = 0;
		unsigned steps_untold = 0;
		unsigned restarts = 0; // since the last line
		unsigned read_errors = 0; // in a row
		std::vector<std::int64_t> lost_ns; // when the stamping was found off
		bool sent = false; // somebody has a line of ours
		std::string bpf_trouble; // as told
		std::string napi_trouble;
		bool napis_due = true; // to be told to BPF variants
	};

	Nic *find(std::uint32_t ifindex);
	Nic *find(const std::string &name);
	void take_links(const std::vector<Link> &links, bool all);
	void take_link(const Link &link);
	void leave(Nic &nic, const std::string &why);
	void adopt(Nic &nic);
	void put_back_leftovers();

	void work(Nic &nic);
	bool check_stamping(Nic &nic);
	bool turn_on(Nic &nic, const NicTimestamps &t);
	bool open(Nic &nic);
	void read(Nic &nic);
	void stepped(Nic &nic);
	void send(Nic &nic);
	void fed(Nic &nic, const ClockLine &line, bool module, const std::vector<std::string> &variants);
	void feed_napis(Nic &nic);
	void drop_line(Nic &nic);
	void forget(Nic &nic);
	bool remember();
	void schedule();

	void set_state(Nic &nic, FeedState state, const std::string &trouble = {});
	void tell(const Nic &nic, bool trouble, std::string what, std::string text) const;

	Nics &host_nics_;
	ClockHost &host_;
	ClockFeederOptions options_;
	Tell tell_;
	StampingMemory memory_;
	std::vector<RememberedStamping> leftovers_; // of a feeder that was killed
	std::vector<std::unique_ptr<Nic>> nics_;
	std::int64_t module_ns_ = 0; // not before: when it is missing the kernel runs modprobe, each time
	bool links_missed_ = false; // some of what changed; all are to be read
	bool running_ = false;
};

} // namespace swift
