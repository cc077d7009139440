// SPDX-License-Identifier: MIT
// One thing at a time: read, compare, write, and how a person would do it.
#include "changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shell_word.h"
#include "text.h"

namespace swift {

namespace {

// For a shell.
std::string show(const std::vector<std::string> &argv)
{
	std::string line;

	for (const std::string &word : argv)
		line += (line.empty() ? "" : " ") + shell_word(word);
	return line;
}

// Runs a command that has to succeed.
Result<void> run(System &system, const std::vector<std::string> &argv)
{
	ASSIGN_OR_RETURN(auto result, system.run(argv));

	if (result.status == 0)
		return {};

	const std::string_view said = trim(result.err.empty() ? result.out : result.err);

	return Error{fmt::format("`{}` failed: {}", show(argv),
				 said.empty() ? fmt::format("exit status {}", result.status) :
						std::string(said))};
}

std::vector<std::string> module_command(const Value &value, const std::string &module_file)
{
	if (value != "loaded")
		return {"rmmod", "tcp_swift"};
	if (module_file.empty())
		return {"modprobe", "tcp_swift"};
	return {"insmod", module_file};
}

// "mq(fq)" is a root mq with fq below. The kernel gives a new mq children of the default
// kind, so that replacing mq by mq renews them.
std::string outer(const std::string &value)
{
	return value.substr(0, value.find('('));
}

std::vector<std::string> qdisc_command(const std::string &dev, const std::string &value)
{
	return {"tc", "qdisc", "replace", "dev", dev, "root", outer(value)};
}

// Single quotes for a shell.
std::string quoted(const std::string &s)
{
	std::string out = "'";

	for (const char c : s)
		out += c == '\'' ? std::string("'\\''") : std::string(1, c);
	return out + "'";
}

Result<void> restore_qdisc(System &system, const std::string &dev, const std::string &value)
{
	const Item item{Kind::qdisc, dev};
	ASSIGN_OR_RETURN(const auto there, root_qdisc(system, dev));

	// Without a root qdisc the kernel attaches its default, which is what was there. A default cannot be deleted.
	if (there.by_hand)
		RETURN_IF_ERROR(run(system, {"tc", "qdisc", "del", "dev", dev, "root"}));

	ASSIGN_OR_RETURN(auto now, current(system, item));
	if (same(item, now, value))
		return {};
	return run(system, qdisc_command(dev, value));
}

Result<void> write_item(System &system, const Item &item, const Value &value,
			const std::string &module_file)
{
	switch (item.kind) {
	case Kind::module:
		return run(system, module_command(value, module_file));
	case Kind::sysctl:
		return write_sysctl(system, item.key, value.value_or(""));
	case Kind::qdisc:
		if (value == "fq" || value == "mq(fq)")
			return run(system, qdisc_command(item.key, *value));
		return restore_qdisc(system, item.key, value.value_or(""));
	case Kind::file:
		break;
	}
	return value ? system.replace_file(item.key, *value, 0644) : system.remove_file(item.key);
}

} // namespace

std::string_view kind_name(Kind k)
{
	static constexpr std::array<std::string_view, 4> names = {"module", "sysctl", "qdisc", "file"};

	return names[static_cast<std::size_t>(k)];
}

std::string item_name(const Item &item)
{
	switch (item.kind) {
	case Kind::module:
		return "module " + item.key;
	case Kind::qdisc:
		return "qdisc of " + item.key;
	case Kind::sysctl:
	case Kind::file:
		break;
	}
	return item.key;
}

Result<Value> current(System &system, const Item &item)
{
	switch (item.kind) {
	case Kind::module:
		return Value(module_loaded(system) ? "loaded" : "unloaded");
	case Kind::sysctl: {
		if (!has_sysctl(system, item.key))
			return Value();
		ASSIGN_OR_RETURN(auto text, read_sysctl(system, item.key));
		return Value(text);
	}
	case Kind::qdisc: {
		if (!has_interface(system, item.key))
			return Value();
		ASSIGN_OR_RETURN(auto qdisc, root_qdisc(system, item.key));
		return Value(qdisc.value);
	}
	case Kind::file:
		break;
	}
	if (!system.exists(item.key))
		return Value();
	ASSIGN_OR_RETURN(auto text, system.read_file(item.key));
	return Value(text);
}

bool same(const Item &item, const Value &a, const Value &b)
{
	// The kernel lists these in an order of its own.
	if (a && b && item.kind == Kind::sysctl && item.key == allowed_cc_sysctl) {
		auto x = words(*a);
		auto y = words(*b);

		std::sort(x.begin(), x.end());
		std::sort(y.begin(), y.end());
		return x == y;
	}
	return a == b;
}

std::vector<std::string> commands(const Item &item, const Value &value,
				  const std::string &module_file)
{
	switch (item.kind) {
	case Kind::module:
		return {show(module_command(value, module_file))};
	case Kind::sysctl: {
		const std::string v = value.value_or("");
		const bool plain = v.find_first_of(" \t") == std::string::npos;

		return {fmt::format("sysctl -w {}={}", item.key, plain ? v : quoted(v))};
	}
	case Kind::qdisc:
		if (value == "fq" || value == "mq(fq)")
			return {show(qdisc_command(item.key, *value))};
		return {show({"tc", "qdisc", "del", "dev", item.key, "root"})};
	case Kind::file:
		break;
	}
	if (!value)
		return {fmt::format("rm -f {}", item.key)};

	std::string line = "printf '%s\\n'";

	for (const std::string &part : split(*value, '\n'))
		if (!part.empty())
			line += " " + quoted(part);
	return {line + " > " + item.key};
}

Result<void> apply(System &system, const Item &item, const Value &value,
		   const std::string &module_file)
{
	RETURN_IF_ERROR(write_item(system, item, value, module_file));

	ASSIGN_OR_RETURN(auto now, current(system, item));
	if (!same(item, now, value))
		return Error{fmt::format("{} is '{}' after it was set to '{}'", item_name(item),
					 now.value_or("(absent)"), value.value_or("(absent)"))};
	return {};
}

bool in_initial_netns(const Files &files)
{
	return has_sysctl(files, default_qdisc_sysctl); // others do not show it
}

bool of_host(const Item &item)
{
	return item.kind == Kind::module || item.kind == Kind::file || item.key == default_qdisc_sysctl ||
	       item.key == allowed_cc_sysctl;
}

bool has_interface(const Files &files, const std::string &dev)
{
	const auto text = files.read_file("/proc/thread-self/net/dev");

	if (!text)
		return false;
	for (const std::string &line : split(*text, '\n'))
		if (trim(line).starts_with(dev + ":"))
			return true;
	return false;
}

int undo_rank(const Item &item)
{
	switch (item.kind) {
	case Kind::sysctl:
		return item.key == default_cc_sysctl ? 0 : item.key == allowed_cc_sysctl ? 1 :
		       item.key == default_qdisc_sysctl		       ? 2 :
									 4;
	case Kind::qdisc:
		return 3;
	case Kind::file:
		return 5;
	case Kind::module:
		break;
	}
	return 6;
}

} // namespace swift
