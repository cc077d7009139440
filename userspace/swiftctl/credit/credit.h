// SPDX-License-Identifier: MIT
// `swiftctl credit`: what this host lends those that send to it: by link, by peer, by flow. Asking the
// module is libswift's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "credit_book.h"
#include "files.h"
#include "interface.h"
#include "table.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct CreditOptions {
	std::vector<std::string> peers;
	std::string top;
	std::string watch; // seconds; empty: once
	std::string netns;
	std::string root; // for tests: files below it, and no kernel
	bool flows = false;
	bool wide = false;
	bool json = false;
};

struct CreditQuery {
	std::vector<Prefix> peers; // any of them; none: all
	std::size_t top = 0; // peers, or flows; 0: all
	double watch_s = 0; // 0: once
	bool flows = false;

	static Result<CreditQuery> from(const CreditOptions &options);
};

// Whom to ask. An interface, so that tests put a made-up module in its place. It decides nothing.
class CreditHost : public Interface {
public:
	virtual Result<CreditBook> book() = 0;
	// Names of devices by their ifindex.
	virtual Result<std::map<std::uint32_t, std::string>> devices() = 0;
};

// The live host, of this network namespace; of another root (tests, images) it is an Error.
std::unique_ptr<CreditHost> real_credit_host(const std::string &root = {});

// All flows of a link from one address.
struct CreditPeer {
	std::uint32_t ifindex = 0;
	Address address;
	std::size_t flows = 0;
	std::size_t waiting = 0;
	std::uint64_t wanted_bytes = 0;
	std::uint64_t lent_bytes = 0;
	std::uint32_t most_bytes = 0; // the smallest of its buckets, and two of them
	std::uint32_t by_csn_bytes = 0;
	std::uint32_t by_marks_bytes = 0;
	Standing standing = Standing::idle; // of most flows that wait; else the most that any has
};

struct CreditSnapshot {
	std::int64_t time_ns = 0; // CLOCK_REALTIME
	bool on = false; // the sysctl
	bool interrupted = false;
	std::vector<CreditLink> links;
	std::vector<CreditPeer> peers; // those that are asked for: who wants most first
	std::vector<CreditFlow> flows; // theirs, in that order
	std::size_t all_peers = 0; // before --peer and --top
	std::size_t all_flows = 0;
	std::map<std::uint32_t, std::string> devices;

	[[nodiscard]] std::string device(std::uint32_t ifindex) const; // its name; else its number
};

Result<CreditSnapshot> take_credit(CreditHost &host, const Files &files, const CreditQuery &query);

[[nodiscard]] Table credit_links_table(const CreditSnapshot &snapshot);
[[nodiscard]] Table credit_peers_table(const CreditSnapshot &snapshot);
[[nodiscard]] Table credit_flows_table(const CreditSnapshot &snapshot);
// What is worth a line below the tables.
[[nodiscard]] std::vector<std::string> credit_notes(const CreditSnapshot &snapshot);
[[nodiscard]] std::vector<std::string> credit_screen(const CreditSnapshot &snapshot, bool flows, bool wide,
						     const Terminal &terminal);
[[nodiscard]] std::string credit_json(const CreditSnapshot &snapshot, bool one_line);

void add_options(CLI::App &verb, CreditOptions &o);
Result<int> run_credit(const CreditOptions &options);
extern const Verb credit_verb;

} // namespace swift
