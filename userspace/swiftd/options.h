// SPDX-License-Identifier: MIT
// All options of swiftd, in one table: out of it come the command line, the configuration
// file, its sample, the documentation and /api/v1/config. What an option does is not here.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "result.h"

namespace swift {

struct Config {
	struct Collect {
		double interval_s = 1;
		double max_cpu_percent = 10;
		std::vector<std::string> ccs = {"swift",     "swift-reno", "bpf_swift",
						"bpf_swift_v0", "bpf_timely", "bpf_gcn"};
		std::vector<std::string> prefixes;
		std::int64_t max_prefixes = 256;
		std::int64_t max_groups = 16;
		std::int64_t history_s = 300;
		std::string netns = "auto";
		std::int64_t max_owners = 64;
		std::int64_t max_owner_prefixes = 32;
		bool ended = true;
	} collect;
	struct Http {
		std::vector<std::string> listen = {"127.0.0.1:9464"};
		std::int64_t max_connections = 256;
		std::int64_t per_ip = 64;
		std::int64_t timeout_s = 10;
		std::string tls_certificate;
		std::string tls_key;
		std::string token_file;
		bool allow_anonymous = false;
		bool token_in_clear = false;
		std::vector<std::string> names;
	} http;
	struct Clocks {
		std::vector<std::string> devices;
		std::int64_t interval_ms = 250;
	} clocks;
	struct Tune {
		bool enabled = false;
		bool apply = false;
		std::string knob = "module";
		std::string prefix;
		double min_us = 5;
		double max_us = 1000;
		double tolerance_percent = 1;
		double step_percent = 100;
		std::int64_t measure = 3;
		std::int64_t hold_s = 600;
		std::int64_t learn_s = 10;

		bool operator==(const Tune &) const = default;
		[[nodiscard]] std::string cc() const { return knob == "module" ? "swift" : knob; }
	} tune;
	struct PolicyFrom {
		std::string file;
	} policy;
	struct Probe {
		std::vector<std::string> listen;
		std::vector<std::string> peers;
		std::string peers_file;
		std::string rack;
		std::int64_t sample = 8;
		double rate_pps = 20;
		std::int64_t timeout_ms = 1000;
		std::int64_t window_s = 900;
		std::int64_t max_racks = 64;
		double fabric_limit_us = 500;
		double host_limit_us = 1000;
		std::int64_t answers_pps = 1000;
		std::string key_file;
		std::vector<std::string> mesh;
		std::string mesh_token_file;
		std::string mesh_ca_file;

		bool operator==(const Probe &) const = default;
		[[nodiscard]] bool probes() const { return !peers.empty() || !peers_file.empty(); }
	} probe;
	struct Otlp {
		std::string endpoint;
		std::int64_t interval_s = 15;
		bool flow_log = true;
		std::string token_file;
		std::string ca_file;
	} otlp;
	struct Log {
		std::string level = "info";
		std::string format = "auto";
	} log;

	bool operator==(const Config &) const;
};

using OptionValue =
	std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct Option {
	std::string_view name; // "collect.interval_s"
	OptionValue (*get)(const Config &);
	void (*put)(Config &, OptionValue);
	double min; // of numbers
	double max;
	std::vector<std::string_view> choices; // of strings; none: any
	std::string_view unit;
	bool reloadable;
	std::string_view help;
};

[[nodiscard]] std::span<const Option> options();
[[nodiscard]] const Option *find_option(std::string_view name);

// "true", "5", "0.5", "\"text\"", "[\"a\", \"b\"]": as in the configuration file.
[[nodiscard]] std::string value_text(const OptionValue &v);
// "0.1 to 60", "one of auto, journal, text"
[[nodiscard]] std::string allowed_text(const Option &o);

// Type and range. An integer will do for a decimal; what() names the option and the value.
Result<void> set_option(Config &config, const Option &option, const OptionValue &value);
// As the command line gives it: a list's parts are separated by commas.
Result<void> set_option_text(Config &config, const Option &option, std::string_view text);

// What no option can be told to be wrong by itself.
Result<void> check_config(const Config &config);

struct ListenAddress {
	std::string host; // in numbers
	std::uint16_t port = 0;
	bool v6 = false;
	bool loopback = false;
};
// @option: for errors.
Result<ListenAddress> parse_listen(std::string_view option, std::string_view text);

[[nodiscard]] std::string sample_toml();
[[nodiscard]] std::string options_markdown();
[[nodiscard]] nlohmann::json options_json(const Config &config);

} // namespace swift
