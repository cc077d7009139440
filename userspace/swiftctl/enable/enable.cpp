// SPDX-License-Identifier: MIT
// The plan of `enable`, its rollback, and `disable`.
//
//   enable:  for each step: read -> remember in the state file -> write -> read back;
//            at the first failure: put back what this run changed, newest plan last
//   disable: for each remembered change, in undo order: if the value is still ours,
//            put the old one back and forget the change
//
// In a network namespace of its own only what is that namespace's: the module is loaded, but not
// remembered, and what the host alone has (of_host()) is left out.
#include "enable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "diag.h"
#include "json.h"
#include "shell_word.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

struct Setting {
	std::string name; // of the tunable
	std::string value;
};

// --set and --echo, checked.
Result<std::vector<Setting>> settings(const EnableOptions &options)
{
	std::vector<Setting> out;

	for (const std::string &text : options.set) {
		const auto equals = text.find('=');

		if (equals == std::string::npos)
			return Error{"--set", text, "name=value"};

		std::string name = text.substr(0, equals);

		if (name.starts_with(sysctl_prefix))
			name.erase(0, sysctl_prefix.size());

		const Tunable *tunable = find_tunable(name);

		if (!tunable) {
			std::string names;

			for (const Tunable &t : tunables())
				names += (names.empty() ? "" : ", ") + std::string(t.name);
			return Error{"--set: no such setting", name, names};
		}
		ASSIGN_OR_RETURN(auto value, prefixed("--set ", tunable->check(text.substr(equals + 1))));
		out.push_back({name, value});
	}
	if (options.echo)
		out.push_back({"echo", "1"});
	return out;
}

bool plausible_dev(const std::string &dev)
{
	return !dev.empty() && dev.size() < 16 && dev[0] != '-' && dev != "." && dev != ".." &&
	       dev.find_first_of("/ \t\n") == std::string::npos;
}

Result<void> check(const EnableOptions &options)
{
	if (options.qdisc != "fq" && options.qdisc != "keep")
		return Error{"--qdisc", options.qdisc, "fq, keep"};
	for (const std::string &dev : options.ifaces)
		if (!plausible_dev(dev))
			return Error{"--iface: not an interface's name", dev};
	return {};
}

// commands() as they are given from where swiftctl was.
std::vector<std::string> commands_from_here(const std::string &netns, const Item &item, const Value &value,
					    const std::string &module_file)
{
	auto lines = commands(item, value, module_file);

	if (item.kind == Kind::module || item.kind == Kind::file)
		return lines;
	for (std::string &line : lines)
		line = netns_command(netns, line);
	return lines;
}

std::string with_swift(const std::string &allowed)
{
	auto list = words(allowed);

	if (std::find(list.begin(), list.end(), cc_name) == list.end())
		list.emplace_back(cc_name);
	return fmt::format("{}", fmt::join(list, " "));
}

// What of this host's sysctls is as earlier runs have set it, and this one does not set.
std::vector<Setting> set_before(const System &system, const std::vector<Change> &remembered, const std::vector<Setting> &set)
{
	std::vector<Setting> all;

	for (const Change &c : remembered) {
		if (c.item.kind != Kind::sysctl || !c.item.key.starts_with(sysctl_prefix))
			continue;
		const std::string name = c.item.key.substr(sysctl_prefix.size());
		const auto now = read_sysctl(system, c.item.key);

		if (now && std::find(c.written.begin(), c.written.end(), *now) != c.written.end() &&
		    std::none_of(set.begin(), set.end(), [&](const Setting &s) { return s.name == name; }))
			all.push_back({name, *now});
	}
	return all;
}

// What else it has to be, of the settings that are in force.
std::string_view dependence_of(const Item &item)
{
	return item.key.starts_with(sysctl_prefix) ? dependence(item.key.substr(sysctl_prefix.size())) : "";
}

// Has an earlier run set it, and is it so still?
bool still_set(const System &system, const std::vector<Change> &remembered, std::string_view key, std::string_view value)
{
	const auto now = read_sysctl(system, std::string(key));

	return now && *now == value &&
	       std::any_of(remembered.begin(), remembered.end(), [&](const Change &c) { return c.item.key == key; });
}

// What a file of sysctl.d sets. The slashes of net/ipv4/NAME are dots, unless a dot comes first.
std::map<std::string, std::string> sysctl_lines(const std::string &text)
{
	std::map<std::string, std::string> set;

	for (const std::string &line : split(text, '\n')) {
		std::string_view rest = trim(line);

		if (rest.starts_with('-')) // may fail
			rest.remove_prefix(1);
		const auto equals = rest.find('=');

		if (equals == std::string_view::npos || rest[0] == '#' || rest[0] == ';')
			continue;
		std::string key(trim(rest.substr(0, equals)));

		if (key.find('/') < key.find('.'))
			std::replace(key.begin(), key.end(), '/', '.');
		set[key] = fmt::format("{}", fmt::join(words(rest.substr(equals + 1)), " "));
	}
	return set;
}

// By their names, in which order a boot reads them; of two with one name the first directory's alone.
std::map<std::string, std::string> sysctl_files(const Files &files)
{
	std::map<std::string, std::string> paths;

	for (const char *dir : {"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d",
				"/lib/sysctl.d"}) {
		const auto names = files.list_dir(dir);

		for (const std::string &name : names ? *names : std::vector<std::string>())
			if (name.ends_with(".conf"))
				paths.try_emplace(name, fmt::format("{}/{}", dir, name));
	}
	return paths;
}

// What comes after our file, and sets otherwise what it sets; in one line each.
std::vector<std::string> overruled(const Files &files, const std::string &text)
{
	const std::string ours = sysctl_file;
	std::vector<std::string> said;

	for (const auto &[name, path] : sysctl_files(files)) {
		const auto other = files.read_file(path);

		if (name <= ours.substr(ours.rfind('/') + 1) || !other)
			continue;
		for (const auto &[key, value] : sysctl_lines(*other))
			for (const auto &[own_key, own] : sysctl_lines(text))
				if (key == own_key && value != own)
					said.push_back(fmt::format("{} sets {} = {}, and a boot reads it after {}: "
								   "take it out there, or it will not be {}",
								   path, key, value, ours, own));
	}
	return said;
}

// Swift is allowed by itself, unless a boot sets who is; and what is the default is allowed as well. A list
// with a name that is not there yet would be refused as a whole, so that it is theirs with swift.
std::string allowed_at_boot(const Files &files)
{
	std::string allowed;

	for (const auto &[name, path] : sysctl_files(files)) {
		const auto text = path == sysctl_file ? Result<std::string>(Error{}) : files.read_file(path);
		const auto set = text ? sysctl_lines(*text) : std::map<std::string, std::string>();

		if (const auto list = set.find(allowed_cc_sysctl); list != set.end())
			allowed = list->second;
	}
	return allowed.empty() ? allowed : with_swift(allowed);
}

std::string sysctl_file_text(bool fq, bool default_cc, const std::vector<Setting> &set, const std::string &allowed)
{
	std::string text = "# Written by `swiftctl enable --persist`; `swiftctl disable` removes it.\n";

	for (const Setting &s : set)
		text += fmt::format("{}{} = {}\n", sysctl_prefix, s.name, s.value);
	if (fq)
		text += fmt::format("{} = fq\n", default_qdisc_sysctl);
	if (!allowed.empty())
		text += fmt::format("{} = {}\n", allowed_cc_sysctl, allowed);
	if (default_cc)
		text += fmt::format("{} = {}\n", default_cc_sysctl, cc_name);
	return text;
}

// One run of `enable`.
class Enabler {
public:
	Enabler(System &system, const EnableOptions &options, const Place &place)
		: system_(system), options_(options), state_(system, place)
	{
		if (!state_.initial())
			outcome_.netns = place.name.empty() ? place.cookie : place.name;
	}

	Outcome run()
	{
		if (auto done = go(); !done)
			outcome_.error = done.error();
		return std::move(outcome_);
	}

private:
	struct Done {
		Item item;
		Value before; // of this run
	};

	Result<void> go()
	{
		std::shared_ptr<void> lock;

		outcome_.usage = true;
		RETURN_IF_ERROR(check(options_));
		ASSIGN_OR_RETURN(const auto set, settings(options_));
		if (options_.persist && !state_.initial())
			return Error{"--persist: not in a network namespace of its own, which no boot makes again "
				     "(allowed: in the initial one)"};
		outcome_.usage = false;
		if (!options_.dry_run && !system_.is_root())
			return Error{"needs root: run it with sudo, or look at what it would do with --dry-run"};
		for (const std::string &dev : options_.ifaces)
			if (!has_interface(system_, dev))
				return Error{"no such interface", dev};
		if (!options_.dry_run) {
			ASSIGN_OR_RETURN(lock, system_.lock(changes_lock_path));
			ASSIGN_OR_RETURN(outcome_.notes, state_.settle());
			ASSIGN_OR_RETURN(remembered_, state_.load());
		} else if (auto remembered = state_.load()) { // root's to read
			remembered_ = std::move(*remembered);
		}

		const std::vector<Change> before = remembered_;
		auto done = steps(set);

		if (!done && !options_.dry_run)
			roll_back(before);
		return done;
	}

	// What new connections depend on comes before what makes new connections use it.
	Result<void> steps(const std::vector<Setting> &set)
	{
		RETURN_IF_ERROR(load_module());
		for (const Setting &s : set)
			RETURN_IF_ERROR(step({Kind::sysctl, std::string(sysctl_prefix) + s.name}, s.value));
		if (options_.qdisc == "fq") {
			if (state_.initial())
				RETURN_IF_ERROR(step({Kind::sysctl, default_qdisc_sysctl}, "fq"));
			for (const std::string &dev : options_.ifaces)
				RETURN_IF_ERROR(qdisc_step(dev));
		}
		if (!state_.initial()) // others may not write what is allowed; swift is, by itself
			return options_.no_default ? Result<void>() : step({Kind::sysctl, default_cc_sysctl}, std::string(cc_name));

		ASSIGN_OR_RETURN(auto allowed, read_sysctl(system_, allowed_cc_sysctl));

		const std::string with = with_swift(allowed);

		RETURN_IF_ERROR(step({Kind::sysctl, allowed_cc_sysctl}, with));
		if (!options_.no_default)
			RETURN_IF_ERROR(step({Kind::sysctl, default_cc_sysctl}, std::string(cc_name)));
		if (!options_.persist)
			return {};
		RETURN_IF_ERROR(step({Kind::file, modules_file}, "tcp_swift\n"));

		std::vector<Setting> all = set_before(system_, remembered_, set);

		all.insert(all.end(), set.begin(), set.end());
		const bool is_default = !options_.no_default || still_set(system_, remembered_, default_cc_sysctl, cc_name);
		const std::string text =
			sysctl_file_text(options_.qdisc == "fq" || still_set(system_, remembered_, default_qdisc_sysctl, "fq"),
					 is_default, all, is_default ? "" : allowed_at_boot(system_));

		for (std::string &line : overruled(system_, text))
			outcome_.notes.push_back(std::move(line));
		return step({Kind::file, sysctl_file}, text);
	}

	Result<void> find_module() const
	{
		if (module_loaded(system_))
			return {};
		if (!options_.module_file.empty()) {
			if (!system_.exists(options_.module_file))
				return Error{"--module: no such file", options_.module_file};
			return {};
		}
		const auto found = system_.run({"modinfo", "-n", "tcp_swift"});

		if (!found || found->status != 0)
			return Error{"the module tcp_swift is not loaded; " + module_hint(system_)};
		return {};
	}

	Result<void> load_module()
	{
		if (auto found = find_module(); !found) {
			if (!options_.dry_run)
				return found;
			outcome_.notes.push_back("it would fail here: " + found.error().text());
		}
		if (!state_.initial() && (options_.dry_run || !module_loaded(system_)))
			outcome_.notes.push_back(fmt::format(
				"of network namespace {} alone; the module tcp_swift is the host's: it stays loaded when this is "
				"disabled, and nothing is written that outlasts a boot",
				outcome_.netns));
		return step({Kind::module, "tcp_swift"}, "loaded");
	}

	Result<void> qdisc_step(const std::string &dev)
	{
		ASSIGN_OR_RETURN(auto now, root_qdisc(system_, dev));

		const std::string wanted = now.value.starts_with("mq(") ? "mq(fq)" : "fq";

		if (now.by_hand && now.value != wanted) {
			outcome_.notes.push_back(fmt::format(
				"{}: its root qdisc {} was set by hand and is left alone; for flows "
				"that take turns put fq there: tc qdisc replace dev {} root fq",
				dev, now.value, dev));
			return {};
		}
		return step({Kind::qdisc, dev}, wanted);
	}

	Result<void> step(const Item &item, const std::string &wanted)
	{
		ASSIGN_OR_RETURN(auto now, current(system_, item));

		if (same(item, now, wanted)) {
			outcome_.events.push_back({item, now, now, "already"});
			return {};
		}
		if (item.kind == Kind::file && now && !is_utf8(*now))
			return Error{item.key + " is not UTF-8, and could not be put back as it is: move it away first"};
		if (options_.dry_run) {
			for (std::string &line : commands_from_here(options_.netns, item, wanted, options_.module_file))
				outcome_.dry_lines.push_back(std::move(line));
			outcome_.events.push_back({item, now, wanted, "would set"});
			return {};
		}
		if (item.kind == Kind::sysctl && !now)
			return Error{"this kernel or module does not have the sysctl " + item.key};

		if (state_.initial() || !of_host(item)) {
			remember(item, now, wanted);
			RETURN_IF_ERROR(state_.save(remembered_));
		}
		done_.push_back({item, now});
		if (auto applied = apply(system_, item, wanted, options_.module_file); !applied) {
			outcome_.events.push_back({item, now, wanted, "failed"});
			// What the kernel answers when it has no such qdisc.
			if (item.key == default_qdisc_sysctl && applied.error().code == ENOENT)
				return Error{"this kernel has no fq queueing discipline (sch_fq); --qdisc keep "
					     "does without, at more CPU"};
			if (const auto allowed = dependence_of(item); applied.error().code == EINVAL && !allowed.empty())
				return Error{"cannot set " + item.key, wanted, std::string(allowed)};
			return applied;
		}
		outcome_.events.push_back({item, now, wanted, "set"});
		return item.kind == Kind::qdisc ? note_qdisc(item) : Result<void>();
	}

	Result<void> note_qdisc(const Item &item)
	{
		const auto known = std::find_if(remembered_.begin(), remembered_.end(),
						[&](const Change &c) { return c.item == item; });
		ASSIGN_OR_RETURN(auto now, root_qdisc(system_, item.key));
		known->left_as = now.detail;
		return state_.save(remembered_);
	}

	// The first value that was there stays the one to go back to, unless somebody else
	// has put another in place of ours.
	void remember(const Item &item, const Value &before, const std::string &wanted)
	{
		const auto known = std::find_if(remembered_.begin(), remembered_.end(),
						[&](const Change &c) { return c.item == item; });

		if (known == remembered_.end()) {
			remembered_.push_back({item, before, {wanted}});
			return;
		}

		const auto wrote = [&](const Value &v) {
			return std::any_of(known->written.begin(), known->written.end(),
					   [&](const std::string &w) { return same(item, v, w); });
		};

		if (!same(item, before, known->before) && !wrote(before))
			*known = {item, before, {wanted}};
		else if (!wrote(wanted))
			known->written.push_back(wanted);
	}

	void roll_back(const std::vector<Change> &before)
	{
		bool whole = true;

		if (done_.empty()) {
			outcome_.rolled_back = true;
			return;
		}
		std::reverse(done_.begin(), done_.end()); // what was set last may want what was set first
		std::stable_sort(done_.begin(), done_.end(), [](const Done &a, const Done &b) {
			return undo_rank(a.item) < undo_rank(b.item);
		});
		for (const Done &d : done_) {
			auto now = current(system_, d.item);

			if (now && same(d.item, *now, d.before))
				continue;
			auto back = now ? apply(system_, d.item, d.before, options_.module_file) :
					  Result<void>(now.error());

			if (back) {
				outcome_.events.push_back({d.item, now ? *now : Value(), d.before,
							   "rolled back"});
			} else {
				whole = false;
				outcome_.notes.push_back("could not put back " + item_name(d.item) + ": " +
							 back.error().text());
			}
		}
		// What could not be put back stays remembered, for `disable`.
		if (whole) {
			if (auto saved = state_.save(before); !saved) {
				whole = false;
				outcome_.notes.push_back(saved.error().text());
			}
		}
		outcome_.rolled_back = whole;
	}

	System &system_;
	const EnableOptions &options_;
	StateFile state_;
	std::vector<Change> remembered_;
	std::vector<Done> done_;
	Outcome outcome_;
};

std::string who_still_uses_it(Sockets &all)
{
	auto sockets = all.tcp_sockets(states_connected | states_listen);
	std::size_t flows = 0;
	std::size_t listeners = 0;

	if (sockets)
		for (const Flow &f : *sockets)
			if (f.uses_module())
				(f.state == 10 ? listeners : flows)++;
	if (flows + listeners == 0)
		return "sockets still use it, perhaps in another network namespace";

	std::string text = fmt::format("{} flow{}", flows, flows == 1 ? "" : "s");

	if (listeners > 0)
		text += fmt::format(" and {} listening socket{}", listeners, listeners == 1 ? "" : "s");
	return text + (flows + listeners == 1 ? " still uses it" : " still use it");
}

bool module_in_use(const Files &files)
{
	auto count = files.read_file("/sys/module/tcp_swift/refcnt");

	return count && trim(*count) != "0";
}

class Disabler {
public:
	Disabler(System &system, Sockets &sockets, const DisableOptions &options, const Place &place)
		: system_(system), sockets_(sockets), options_(options), state_(system, place)
	{
		if (!state_.initial())
			outcome_.netns = place.name.empty() ? place.cookie : place.name;
	}

	Outcome run()
	{
		if (auto done = go(); !done)
			outcome_.error = done.error();
		return std::move(outcome_);
	}

private:
	// An Error: nothing was tried.
	Result<void> go()
	{
		std::shared_ptr<void> lock;

		if (!options_.dry_run && !system_.is_root())
			return Error{"needs root: run it with sudo, or look at what it would do with --dry-run"};
		if (!options_.dry_run && system_.exists(state_dir(Keeper::service))) {
			ASSIGN_OR_RETURN(lock, system_.lock(changes_lock_path));
		}
		if (!options_.dry_run) {
			ASSIGN_OR_RETURN(outcome_.notes, state_.settle());
		}
		ASSIGN_OR_RETURN(auto left, state_.load());

		if (left.empty())
			outcome_.notes.emplace_back("nothing to undo: swiftctl enable has changed nothing "
						    "here");
		std::reverse(left.begin(), left.end()); // tunables bind each other
		std::stable_sort(left.begin(), left.end(), [](const Change &a, const Change &b) {
			return undo_rank(a.item) < undo_rank(b.item);
		});
		Result<void> saved; // the last time, which is what the next run finds

		for (auto change = left.begin(); change != left.end();) {
			if (!undo(*change)) {
				++change; // remembered, for another try
				continue;
			}
			change = left.erase(change);
			if (!options_.dry_run)
				saved = state_.save(left);
		}
		if (!saved && !outcome_.error)
			outcome_.error = saved.error();
		return {};
	}

	// True if there is nothing left to do for @change.
	bool undo(const Change &change)
	{
		const Item &item = change.item;
		auto now = current(system_, item);

		if (!now)
			return fail(item, now.error());
		if (same(item, *now, change.before)) {
			outcome_.events.push_back({item, *now, *now, "already"});
			return true;
		}
		if (!*now) {
			outcome_.events.push_back({item, {}, {}, "gone"});
			return true;
		}

		const bool ours = std::any_of(
			change.written.begin(), change.written.end(),
			[&](const std::string &w) { return same(item, *now, w); });

		if (ours && !options_.force && !change.left_as.empty()) {
			const auto there = root_qdisc(system_, item.key);

			if (!there)
				return fail(item, there.error());
			if (there->detail != change.left_as) {
				outcome_.events.push_back({item, *now, *now, "left"});
				outcome_.notes.push_back(fmt::format(
					"{} is '{}', but another one than swiftctl put there, or with other options: "
					"left alone, and forgotten. What was there before comes back with: {}",
					item_name(item), **now, back(change)));
				return true;
			}
		}
		if (!ours && !options_.force) {
			outcome_.events.push_back({item, *now, *now, "left"});
			outcome_.notes.push_back(fmt::format(
				"{} is now '{}', which swiftctl did not set: left alone, and forgotten. What was there before "
				"comes back with: {}",
				item_name(item), trim(**now), back(change)));
			return true;
		}
		if (const auto others = state_.others(); item.kind == Kind::module && !others.empty()) {
			outcome_.events.push_back({item, *now, *now, "left"});
			outcome_.notes.push_back(fmt::format(
				"the module tcp_swift stays loaded: swiftctl enable has changed other network namespaces as well: {}. "
				"Unload it when they are back: rmmod tcp_swift",
				fmt::join(others, ", ")));
			return true;
		}
		if (item.kind == Kind::module && module_in_use(system_)) {
			outcome_.events.push_back({item, *now, *now, "left"});
			outcome_.notes.push_back(
				"the module tcp_swift stays loaded: " + who_still_uses_it(sockets_) +
				"; new connections do not. Unload it when they are gone: rmmod tcp_swift");
			return true;
		}
		// With the wrong default in place it would come back as the wrong kind.
		if (item.kind == Kind::qdisc && wrong_default_) {
			outcome_.events.push_back({item, *now, *now, "left"});
			return false;
		}
		if (options_.dry_run) {
			for (std::string &line : commands_from_here(options_.netns, item, change.before, {}))
				outcome_.dry_lines.push_back(std::move(line));
			outcome_.events.push_back({item, *now, change.before, "would restore"});
			return true;
		}
		if (auto done = apply(system_, item, change.before, {}); !done)
			return fail(item, done.error());
		outcome_.events.push_back({item, *now, change.before, "restored"});
		return true;
	}

	[[nodiscard]] std::string back(const Change &change) const
	{
		return fmt::format("{}", fmt::join(commands_from_here(options_.netns, change.item, change.before, {}), "; "));
	}

	bool fail(const Item &item, const Error &error)
	{
		if (!outcome_.error)
			outcome_.error = error;
		else
			outcome_.notes.push_back(error.text());
		outcome_.events.push_back({item, {}, {}, "failed"});
		wrong_default_ |= item.key == default_qdisc_sysctl;
		return false;
	}

	System &system_;
	Sockets &sockets_;
	const DisableOptions &options_;
	StateFile state_;
	bool wrong_default_ = false; // of queueing disciplines
	Outcome outcome_;
};

} // namespace

Result<void> check_settings(const EnableOptions &options)
{
	RETURN_IF_ERROR(check(options));
	RETURN_IF_ERROR(settings(options));
	return {};
}

Outcome enable(System &system, const EnableOptions &options, const Place &place)
{
	return Enabler(system, options, place).run();
}

Outcome disable(System &system, Sockets &sockets, const DisableOptions &options, const Place &place)
{
	return Disabler(system, sockets, options, place).run();
}

} // namespace swift
