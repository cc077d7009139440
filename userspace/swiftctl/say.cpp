// SPDX-License-Identifier: MIT
#include "say.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "printable.h"

namespace swift {

namespace {

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

void note(const Verb &verb, std::string_view text)
{
	complain(who(verb) + ": " + std::string(text));
}

} // namespace swift
