// SPDX-License-Identifier: MIT
#include "manual.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

namespace swift {

namespace {

namespace fs = std::filesystem;

constexpr const char *date = "November 21, 2026";

// As mdoc wants them; what is not in here comes after the description, as the prose has it.
constexpr std::array first_sections = {"NAME", "SYNOPSIS", "DESCRIPTION"};
constexpr std::array last_sections = {"ENVIRONMENT", "FILES",	  "EXIT STATUS", "EXAMPLES",
				      "DIAGNOSTICS", "SEE ALSO", "STANDARDS",	"CAVEATS"};

constexpr const char *exit_statuses = ".Bl -tag -width Ds -compact\n"
				      ".It 0\nDone.\n"
				      ".It 1\nFailed: one line on standard error says why.\n"
				      ".It 2\nWrong usage; nothing was done.\n"
				      ".El\n";

std::string replaced(std::string text, std::string_view what, std::string_view with)
{
	for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
		text.replace(at, what.size(), with);
	return text;
}

// One argument of a macro.
std::string mdoc_word(const std::string &text)
{
	return '"' + replaced(replaced(replaced(text, "\\", "\\e"), "-", "\\-"), "\"", "\\(dq") + '"';
}

bool shown(const CLI::Option *option)
{
	return !option->get_group().empty();
}

std::vector<const CLI::Option *> options_of(const CLI::App &app)
{
	return app.get_options([](const CLI::Option *o) { return shown(o); });
}

std::vector<const CLI::App *> parts_of(const CLI::App &app)
{
	return app.get_subcommands([](const CLI::App *a) { return !a->get_group().empty(); });
}

bool takes_value(const CLI::Option *option)
{
	return option->get_expected_max() != 0; // flags: 0
}

bool repeatable(const CLI::Option *option)
{
	return option->get_items_expected_max() > 1;
}

// Its section is in its verb's page.
bool is_action(const CLI::App &app)
{
	return app.get_parent() && app.get_parent()->get_parent();
}

// "swiftctl bpf load"
std::string words_of(const CLI::App &app)
{
	return app.get_parent() ? words_of(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

// ".Fl -watch Op Ar SECONDS", without the dot.
std::string mdoc_option(const CLI::Option *option)
{
	if (option->get_positional())
		return "Ar " + option->get_name(true) + (repeatable(option) ? " ..." : "");

	std::string text;
	std::string type = option->get_type_name();

	for (const std::string &name : option->get_snames())
		text += "Fl " + name + " , ";
	for (const std::string &name : option->get_lnames())
		text += "Fl -" + name + " , ";
	text.resize(text.size() - 3);
	if (!takes_value(option))
		return text;
	if (type.starts_with('[') && type.ends_with(']'))
		return text + " Op Ar " + mdoc_word(type.substr(1, type.size() - 2));
	return text + " Ar " + mdoc_word(type);
}

std::string mdoc_synopsis(const CLI::App &app)
{
	const std::string words = words_of(app);
	const std::size_t space = words.find(' ');
	std::string text = ".Nm " + words.substr(0, space) + "\n";

	if (space != std::string::npos)
		text += ".Cm " + words.substr(space + 1) + "\n";
	for (const CLI::Option *option : options_of(app))
		if (option != app.get_help_ptr())
			text += (option->get_required() ? "." : ".Op ") + mdoc_option(option) + "\n";
	for (const CLI::App *action : parts_of(app))
		text += mdoc_synopsis(*action);
	return text;
}

std::string mdoc_options(const CLI::App &app)
{
	std::string text;

	for (const CLI::Option *option : options_of(app))
		if (option != app.get_help_ptr() || !is_action(app))
			text += ".It " + mdoc_option(option) + "\n" + mdoc_text(option->get_description() + ".");
	return text.empty() ? "" : ".Bl -tag -width Ds\n" + text + ".El\n";
}

// What stands before "Examples:" in a footer, and what after it.
std::pair<std::string, std::string> footer_of(const CLI::App &app)
{
	const std::string footer = app.get_footer();

	if (is_action(app) && footer == app.get_parent()->get_footer())
		return {}; // inherited

	const std::size_t at = footer.find("Examples:\n");

	if (at == std::string::npos)
		return {footer, ""};

	std::string examples = footer.substr(at + 10);
	std::string rest = footer.substr(0, at);

	// A paragraph after the examples is none of them.
	if (const std::size_t end = examples.find("\n\n"); end != std::string::npos) {
		rest += examples.substr(end);
		examples.resize(end);
	}
	return {rest, examples};
}

std::string mdoc_paragraphs(const std::string &text)
{
	std::istringstream lines(text);
	std::string out;

	for (std::string line; std::getline(lines, line);) {
		if (!line.empty())
			out += mdoc_text(line);
		else if (!out.empty() && !out.ends_with(".Pp\n"))
			out += ".Pp\n";
	}
	while (out.ends_with(".Pp\n"))
		out.resize(out.size() - 4);
	return out.empty() ? out : ".Pp\n" + out;
}

// As mdoc_text(), line for line.
std::string mdoc_literal(std::string line)
{
	line = replaced(replaced(line, "\\", "\\e"), "-", "\\-");
	return (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
}

std::string mdoc_examples(const std::string &examples)
{
	if (examples.empty())
		return "";

	std::istringstream lines(examples);
	std::string out = ".Bd -literal\n";

	for (std::string line; std::getline(lines, line);)
		out += mdoc_literal(line.starts_with("  ") ? line.substr(2) : line);
	return out + ".Ed\n";
}

void add_examples(const CLI::App &app, std::string &text)
{
	text += mdoc_examples(footer_of(app).second);
	for (const CLI::App *action : parts_of(app))
		add_examples(*action, text);
}

ManualPage verb_page(const CLI::App &verb)
{
	ManualPage page{replaced(words_of(verb), " ", "-"), 8, verb.get_description()};
	std::string &text = page.generated["DESCRIPTION"];

	text = ".Pp\nThe options are as follows:\n" + mdoc_options(verb) +
	       mdoc_paragraphs(footer_of(verb).first);
	for (const CLI::App *action : parts_of(verb))
		text += ".Ss " + action->get_name() + "\n" + mdoc_text(action->get_description() + ".") +
			mdoc_options(*action) + mdoc_paragraphs(footer_of(*action).first);
	add_examples(verb, page.generated["EXAMPLES"]);
	page.generated["SYNOPSIS"] = mdoc_synopsis(verb);
	page.generated["EXIT STATUS"] = exit_statuses;
	return page;
}

ManualPage program_page(const CLI::App &app)
{
	if (parts_of(app).empty())
		return verb_page(app);

	ManualPage page{app.get_name(), 8, app.get_description()};
	std::string verbs = ".Pp\nThe verbs are as follows, each with a page of its own:\n"
			    ".Bl -tag -width Ds\n";

	for (const CLI::App *verb : parts_of(app))
		verbs += fmt::format(".It Xr {}-{} 8\n{}", app.get_name(), verb->get_name(),
				     mdoc_text(verb->get_description() + "."));
	page.generated["SYNOPSIS"] = fmt::format(".Nm {}\n.Ar verb\n.Op Ar options\n", app.get_name());
	page.generated["DESCRIPTION"] = verbs + ".El\n.Pp\nWithout a verb:\n" + mdoc_options(app);
	page.generated["EXAMPLES"] = mdoc_examples(footer_of(app).second);
	page.generated["EXIT STATUS"] = exit_statuses;
	return page;
}

// ".Sh" by ".Sh", in the order of the file; what stands before the first is a comment.
Result<std::vector<std::pair<std::string, std::string>>> read_prose(const std::string &file)
{
	std::ifstream in(file);
	std::vector<std::pair<std::string, std::string>> sections;

	if (!in)
		return errno_error("cannot read " + file, errno);
	for (std::string line; std::getline(in, line);) {
		if (line.starts_with(".Sh "))
			sections.emplace_back(line.substr(4), "");
		else if (!sections.empty())
			sections.back().second += line + "\n";
	}
	return sections;
}

Result<void> write_file(const fs::path &path, const std::string &text)
{
	std::error_code wrong;

	fs::create_directories(path.parent_path(), wrong);
	if (wrong)
		return errno_error("cannot create " + path.parent_path().string(), wrong.value());

	std::ofstream out(path);

	out << text;
	out.close();
	return out ? Result<void>() : errno_error("cannot write " + path.string(), errno);
}

// What an option's value is, for completion.
enum class Kind { none, text, file, device };

Kind kind_of(const CLI::Option *option)
{
	const std::string type = option->get_type_name();

	if (!takes_value(option))
		return Kind::none;
	if (type == "FILE" || type == "PATH")
		return Kind::file;
	return type == "DEV" ? Kind::device : Kind::text;
}

std::vector<std::string> flags_of(const CLI::Option *option)
{
	std::vector<std::string> flags;

	for (const std::string &name : option->get_lnames())
		flags.push_back("--" + name);
	for (const std::string &name : option->get_snames())
		flags.push_back("-" + name);
	return flags;
}

// Rows of the cases in bash's function: which words lead where, what may follow, and of what
// kind an option's value is. A place is " bpf load".
struct BashRows {
	std::string steps;
	std::string words;
	std::string values;

	void add(const CLI::App &app, const std::string &place)
	{
		words += "\t'" + place + "') words='";
		for (const CLI::App *part : parts_of(app))
			words += part->get_name() + " ";
		for (const CLI::Option *option : options_of(app)) {
			for (const std::string &flag : flags_of(option)) {
				if (flag.starts_with("--"))
					words += flag + " ";
				if (const Kind kind = kind_of(option); kind != Kind::none)
					values += fmt::format("\t'{} {}') kind={} ;;\n", place, flag,
							      kind == Kind::file   ? "file" :
							      kind == Kind::device ? "device" :
										     "text");
			}
		}
		words += "' ;;\n";
		for (const CLI::App *part : parts_of(app)) {
			const std::string next = place + " " + part->get_name();

			steps += "\t\t'" + next + "') place='" + next + "' ;;\n";
			add(*part, next);
		}
	}
};

std::string bash_completion(const CLI::App &app)
{
	BashRows rows;
	const std::string &name = app.get_name();

	rows.add(app, "");
	return fmt::format(R"bash(# {0}: completion for bash, made from the program's own table of options.
_{0}()
{{
	local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
	local place='' words='' kind='' i

	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$place ${{COMP_WORDS[i]}}" in
{1}		esac
	done
	case "$place $before" in
{3}	esac
	COMPREPLY=()
	case $kind in
	text) return ;;
	file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
	device) mapfile -t COMPREPLY < <(compgen -W "$(ls /sys/class/net)" -- "$current"); return ;;
	esac
	case "$place" in
{2}	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _{0} {0}
)bash",
			   name, rows.steps.empty() ? "\t\t*) ;;\n" : rows.steps, rows.words,
			   rows.values.empty() ? "\t*) ;;\n" : rows.values);
}

// Within '...' of an _arguments specification.
std::string zsh_text(std::string text)
{
	for (const char *special : {"\\", "[", "]", ":", "`", "$"})
		text = replaced(text, special, std::string("\\") + special);
	return replaced(text, "'", "'\\''");
}

std::string zsh_options(const CLI::App &app)
{
	std::string text;

	for (const CLI::Option *option : options_of(app)) {
		const std::string about = zsh_text(option->get_description());
		const Kind kind = kind_of(option);
		const std::string action = kind == Kind::file	? "_files" :
					   kind == Kind::device ? "_net_interfaces" :
								  " ";

		if (option->get_positional()) {
			text += fmt::format(" \\\n\t\t'{}:{}:_files'", repeatable(option) ? "*" : "",
					    zsh_text(option->get_name(true)));
			continue;
		}
		for (const std::string &flag : flags_of(option)) {
			const std::string type = option->get_type_name();

			text += fmt::format(" \\\n\t\t'{}{}[{}]", repeatable(option) ? "*" : "", flag, about);
			if (kind != Kind::none)
				text += fmt::format("{}{}:{}", type.starts_with('[') ? "::" : ":",
						    zsh_text(type), action);
			text += "'";
		}
	}
	return text;
}

// A function per place: _swiftctl_bpf_load.
std::string zsh_functions(const CLI::App &app)
{
	const std::string function = "_" + replaced(words_of(app), " ", "_");
	const auto parts = parts_of(app);
	std::string text;

	for (const CLI::App *part : parts)
		text += zsh_functions(*part);
	text += function + "()\n{\n";
	if (parts.empty())
		return text + "\t_arguments -s" + zsh_options(app) + "\n}\n";

	text += "\tlocal context state state_descr line\n\ttypeset -A opt_args\n\tlocal -a parts=(\n";
	for (const CLI::App *part : parts)
		text += fmt::format("\t\t'{}:{}'\n", part->get_name(), zsh_text(part->get_description()));
	text += "\t)\n\t_arguments -C" + zsh_options(app) +
		" \\\n\t\t'1: :->part' '*:: :->rest'\n\tcase $state in\n"
		"\tpart) _describe verb parts ;;\n\trest) case $line[1] in\n";
	for (const CLI::App *part : parts)
		text += fmt::format("\t\t{}) {}_{} ;;\n", part->get_name(), function, part->get_name());
	return text + "\t\tesac ;;\n\tesac\n}\n";
}

std::string zsh_completion(const CLI::App &app)
{
	return fmt::format("#compdef {0}\n# Made from the program's own table of options.\n{1}_{0} \"$@\"\n",
			   app.get_name(), zsh_functions(app));
}

} // namespace

std::string mdoc_text(const std::string &text)
{
	// A new sentence wants a new line.
	static const std::regex sentence("([a-z0-9)][.!?]) +(?=[A-Z])");
	std::istringstream lines(std::regex_replace(replaced(text, "\\", "\\e"), sentence, "$1\n"));
	std::string out;

	for (std::string line; std::getline(lines, line);)
		out += (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") +
		       replaced(line, "--", "\\-\\-") + "\n";
	return out;
}

Manual::Manual(std::string prose_dir, std::string out_dir)
	: prose_dir_(std::move(prose_dir)), out_dir_(std::move(out_dir))
{
}

Result<void> Manual::write(const ManualPage &page) const
{
	ASSIGN_OR_RETURN(const auto prose, read_prose(prose_dir_ + "/" + page.name + ".mdoc"));

	std::string title = page.name;
	std::string summary = page.summary;
	std::map<std::string, std::string> sections = page.generated;
	std::vector<std::string> order(first_sections.begin(), first_sections.end());

	std::transform(title.begin(), title.end(), title.begin(),
		       [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
	while (summary.ends_with('.'))
		summary.pop_back();
	sections["NAME"] = fmt::format(".Nm {}\n.Nd {}\n", page.name, mdoc_text(summary));
	sections["NAME"].pop_back();
	for (const auto &[name, text] : prose) {
		sections[name] = text + sections[name];
		if (std::find(first_sections.begin(), first_sections.end(), name) == first_sections.end() &&
		    std::find(last_sections.begin(), last_sections.end(), name) == last_sections.end())
			order.push_back(name);
	}
	order.insert(order.end(), last_sections.begin(), last_sections.end());

	std::string text = fmt::format(".Dd {}\n.Dt {} {}\n.Os tcp_swift\n", date, title, page.section);

	for (const std::string &name : order)
		if (!sections[name].empty())
			text += ".Sh " + name + "\n" + sections[name];
	return write_file(fmt::format("{}/man/man{}/{}.{}", out_dir_, page.section, page.name, page.section),
			  text);
}

Result<void> Manual::write_program(const CLI::App &app) const
{
	auto done = write(program_page(app));

	for (const CLI::App *verb : parts_of(app)) {
		if (!done)
			return done;
		done = write(verb_page(*verb));
	}
	if (done)
		done = write_file(out_dir_ + "/bash/" + app.get_name(), bash_completion(app));
	if (done)
		done = write_file(out_dir_ + "/zsh/_" + app.get_name(), zsh_completion(app));
	return done;
}

} // namespace swift
