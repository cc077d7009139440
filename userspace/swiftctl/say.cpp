// SPDX-License-Identifier: MIT
#include "say.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "printable.h"

namespace swift {

namespace {

constexpr int error_usage = -1; // of no errno

std::string who(const Verb &verb)
{
	const std::string name = verb.name;

	return name.empty() ? "swiftctl" : "swiftctl " + name;
}

void complain(const std::string &line)
{
	std::string one = line;

	std::replace(one.begin(), one.end(), '\n', ' ');
	std::fprintf(stderr, "%s\n", printable(one).c_str());
}

} // namespace

bool print(std::string_view text)
{
	const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();

	return std::fflush(stdout) == 0 && written;
}

int fail(const Verb &verb, std::string_view why)
{
	complain(who(verb) + ": " + std::string(why));
	return exit_failed;
}

int fail_usage(const Verb &verb, std::string_view why)
{
	complain(who(verb) + ": " + std::string(why) + "; see " + who(verb) + " --help");
	return exit_usage;
}

Error usage_error(Error error)
{
	error.code = error_usage;
	return error;
}

Error usage_error(std::string_view what)
{
	return usage_error(Error{std::string(what)});
}

int exit_status(const Verb &verb, const Result<int> &run)
{
	return run ? *run : run.error().code == error_usage ? fail_usage(verb, run.error().text()) :
							      fail(verb, run.error().text());
}

int leave(std::string_view text)
{
	return print(text) ? exit_ok : exit_failed;
}

int leave(const std::vector<std::string> &lines)
{
	return leave(fmt::format("{}\n", fmt::join(lines, "\n")));
}

void note(const Verb &verb, std::string_view text)
{
	complain(who(verb) + ": " + std::string(text));
}

} // namespace swift
