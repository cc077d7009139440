// SPDX-License-Identifier: MIT
// `swiftctl report`: files in, files and text out.
#include "report.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "say.h"
#include "system.h"

namespace swift {

namespace {

std::string absolute(const std::string &path)
{
	return std::filesystem::absolute(path).string();
}

} // namespace

Result<void> two_files(const std::string &one, const std::string &path, const std::string &other, const std::string &other_path)
{
	namespace fs = std::filesystem;
	std::error_code none;

	if (fs::exists(path, none) && !fs::is_regular_file(path, none)) // /dev/null takes any
		return {};
	if (path.empty() || other_path.empty() ||
	    fs::weakly_canonical(absolute(path), none) != fs::weakly_canonical(absolute(other_path), none))
		return {};
	return Error{one + " and " + other, path, "two files"};
}

Result<void> can_write_report(const std::string &path)
{
	const std::filesystem::path whole(absolute(path));
	std::error_code none;

	if (std::filesystem::is_directory(whole, none))
		return errno_error("cannot write " + path, EISDIR);

	const bool there = std::filesystem::exists(whole, none);

	if (access((there ? whole : whole.parent_path()).c_str(), W_OK) < 0)
		return errno_error("cannot write " + path, errno);
	return {};
}

Result<void> write_report(const std::string &path, const std::string &content)
{
	std::error_code none;

	RETURN_IF_ERROR(can_write_report(path));
	if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
		std::ofstream file(path, std::ios::binary);

		if (!(file << content << std::flush))
			return Error{"cannot write " + path};
		return {};
	}
	return real_system()->replace_file(absolute(path), content, 0644);
}

Result<int> run_report(const ReportOptions &options)
{
	std::vector<Report> reports;
	const auto system = real_system();

	if (options.files.empty())
		return usage_error("which FILE?");
	RETURN_IF_ERROR(as_usage(two_files("--html", options.html_file, "--markdown", options.markdown_file)));
	for (const std::string &file : options.files) {
		RETURN_IF_ERROR(as_usage(two_files("FILE", file, "--html", options.html_file)));
		RETURN_IF_ERROR(as_usage(two_files("FILE", file, "--markdown", options.markdown_file)));
		ASSIGN_OR_RETURN(const auto text, system->read_file(absolute(file)));
		ASSIGN_OR_RETURN(auto report, read_report(file, text));

		reports.push_back(std::move(report));
	}
	if (!options.html_file.empty())
		RETURN_IF_ERROR(write_report(options.html_file, report_html(reports)));
	if (!options.markdown_file.empty())
		RETURN_IF_ERROR(write_report(options.markdown_file, report_markdown(reports)));
	if (options.text || (options.html_file.empty() && options.markdown_file.empty())) {
		std::string all;

		for (const Report &report : reports)
			all += (all.empty() ? "" : "\n") + report_text(report, standard_output());
		if (!print(all))
			return exit_failed;
	}
	return exit_ok;
}

} // namespace swift
