// SPDX-License-Identifier: MIT
#include "log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdlib>

namespace swift {

namespace {

// systemd tells which of a service's descriptors go to the journal: "device:inode".
bool stderr_is_journal()
{
	const char *journal = std::getenv("JOURNAL_STREAM");
	struct stat s {};

	return journal && fstat(2, &s) == 0 &&
	       std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino) == journal;
}

} // namespace

void start_log(const Config::Log &config)
{
	const bool journal =
		config.format == "journal" || (config.format == "auto" && stderr_is_journal());
	spdlog::sink_ptr sink;

	if (journal)
		sink = std::make_shared<spdlog::sinks::systemd_sink_mt>("swiftd");
	else
		sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
	auto logger = std::make_shared<spdlog::logger>("swiftd", std::move(sink));

	logger->set_pattern(journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %l: %v");
	spdlog::set_default_logger(std::move(logger));
	set_log_level(config);
}

void set_log_level(const Config::Log &config)
{
	spdlog::set_level(spdlog::level::from_str(config.level));
}

} // namespace swift
