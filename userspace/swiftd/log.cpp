// SPDX-License-Identifier: MIT
#include "log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdlib>

#include "printable.h"

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

// What is said may have names of others in it: %*.
class PrintableText : public spdlog::custom_flag_formatter {
public:
	void format(const spdlog::details::log_msg &said, const std::tm &, spdlog::memory_buf_t &out) override
	{
		const std::string text = printable({said.payload.data(), said.payload.size()});

		out.append(text.data(), text.data() + text.size());
	}
	[[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override
	{
		return std::make_unique<PrintableText>();
	}
};

} // namespace

void start_log(const Config::Log &config)
{
	const bool journal =
		config.format == "journal" || (config.format == "auto" && stderr_is_journal());
	spdlog::sink_ptr sink;

	if (journal)
		sink = std::make_shared<spdlog::sinks::systemd_sink_mt>("swiftd", true);
	else
		sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
	auto logger = std::make_shared<spdlog::logger>("swiftd", std::move(sink));

	auto formatter = std::make_unique<spdlog::pattern_formatter>(
		spdlog::pattern_time_type::local, journal ? "" : spdlog::details::os::default_eol);

	formatter->add_flag<PrintableText>('*').set_pattern(journal ? "%*" : "%Y-%m-%dT%H:%M:%S.%e%z %l: %*");
	logger->set_formatter(std::move(formatter));
	spdlog::set_default_logger(std::move(logger));
	set_log_level(config);
}

void set_log_level(const Config::Log &config)
{
	spdlog::set_level(spdlog::level::from_str(config.level));
}

} // namespace swift
