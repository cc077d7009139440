// SPDX-License-Identifier: MIT
#include "bpf_variant.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <thread>

#include "diag.h"
#include "interface.h"
#include "maps.h"
#include "telemetry.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::string_view default_cc_sysctl = "net.ipv4.tcp_congestion_control";
constexpr std::string_view available_cc_sysctl = "net.ipv4.tcp_available_congestion_control";
constexpr std::uint32_t default_key_length = 0xffffffffU; // of no prefix: the values of all others
constexpr int gone_attempts = 500; // of 10 ms, for what the kernel does when it gets to it

std::string staging_of(const std::string &name)
{
	return bpf_dir(name) + "~new";
}

std::string default_file(const std::string &name)
{
	return std::string(state_dir(Keeper::tools)) + "/bpf-" + name + ".default";
}

BpfBytes key_of(const BpfPrefix &prefix)
{
	return bpf_bytes(prefix);
}

BpfBytes default_key()
{
	return key_of(BpfPrefix{default_key_length, {}});
}

BpfBytes bytes_of(const BpfValues &values)
{
	const auto bytes = std::as_bytes(std::span(values));

	return {bytes.begin(), bytes.end()};
}

Result<BpfValues> values_of(const BpfLaw &law, const BpfBytes &bytes)
{
	BpfValues values(law.tunables.size());

	if (bytes.size() != values.size() * sizeof(std::uint32_t))
		return Error{"loaded by a swiftctl of another version: unload it and load it again"};
	std::memcpy(values.data(), bytes.data(), bytes.size());
	return values;
}

// Of one CPU after the other.
std::vector<std::pair<std::string_view, std::uint64_t>> stamps_of(const BpfBytes &bytes)
{
	std::vector<std::pair<std::string_view, std::uint64_t>> out = {
#define SWIFT_X(name) {#name, 0},
		BPF_SWIFT_STAMPS(SWIFT_X)
#undef SWIFT_X
	};

	for (std::size_t at = 0; at + sizeof(bpf_swift_stamps) <= bytes.size(); at += sizeof(bpf_swift_stamps)) {
		bpf_swift_stamps s;
		auto to = out.begin();

		std::memcpy(&s, bytes.data() + at, sizeof(s));
#define SWIFT_X(name) to++->second += s.name;
		BPF_SWIFT_STAMPS(SWIFT_X)
#undef SWIFT_X
	}
	return out;
}

bool on_cgroup(const BpfProgram &p)
{
	return p.kind == BpfProgramKind::sock_ops || p.kind == BpfProgramKind::cgroup_skb;
}

bool is_program_pin(const std::string &pin)
{
	return pin.starts_with("prog_");
}

bool is_link_pin(const std::string &pin)
{
	return pin.starts_with("link_");
}

std::string assignments(const std::vector<std::string> &set)
{
	std::string out;

	for (const std::string &s : set)
		out += (out.empty() ? "" : ", ") + s;
	return out;
}

} // namespace

// What an action wants, once everything that can be known beforehand is known.
struct BpfVariants::Plan {
	std::string dir;
	std::string staging;
	std::string file;
	std::string cgroup;
	bool by_link = false;
	const BpfLaw *law = nullptr;
	BpfValues values;
	BpfBytes params;
	BpfMap profiles; // if the law has any
	std::vector<BpfProgram> programs; // that are loaded
	std::vector<BpfMap> maps; // that are pinned, but for the next
	std::string ops_map;
	std::unique_ptr<BpfObject> object;
};

// Runs backwards what was put on it, unless all went well.
class BpfVariants::Undo : NonCopyable {
public:
	Undo() = default;
	~Undo()
	{
		for (; !steps_.empty(); steps_.pop_back())
			steps_.back()();
	}
	void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
	void forget() { steps_.clear(); }

private:
	std::vector<std::function<void()>> steps_;
};

Result<void> check_bpf_name(const std::string &name)
{
	static constexpr std::string_view allowed =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

	if (name.empty() || name.size() > 15 || name.find_first_not_of(allowed) != std::string::npos)
		return Error{"not a name of a congestion control", name.empty() ? "(empty)" : name,
			     "1 to 15 of A-Z a-z 0-9 _ -"};
	if (name == telemetry_name)
		return Error{"not a congestion control, and with load and unload only", name};
	return {};
}

Result<void> need_bpffs(BpfHost &host, BpfReport &report, bool dry_run)
{
	if (host.abilities().bpffs)
		return {};
	if (!dry_run)
		RETURN_IF_ERROR(host.mount_bpffs());
	report.notes.emplace_back(dry_run ? "bpffs would be mounted at /sys/fs/bpf" :
					    "bpffs was not mounted: it is now, at /sys/fs/bpf");
	return {};
}

Result<std::unique_ptr<BpfObject>> open_object(BpfHost &host, const std::string &file, const std::string &name)
{
	auto object = file.empty() ? host.open_built_in(name) : host.open(file);

	if (object || !file.empty() || object.error().code != ENOENT)
		return object;
	Error none = object.error();

	for (const std::string &each : host.built_in())
		none.allowed += (none.allowed.empty() ? "" : ", ") + each;
	return none;
}

std::string object_text(const std::string &file, const std::string &name)
{
	return file.empty() ? "the built-in " + name : file;
}

/* --- What there is ------------------------------------------------------------------ */

std::string BpfVariants::default_cc() const
{
	const auto value = read_sysctl(system_, default_cc_sysctl);

	return value ? *value : std::string();
}

bool BpfVariants::registered(const std::string &name) const
{
	const auto value = read_sysctl(system_, available_cc_sysctl);
	const auto all = value ? words(*value) : std::vector<std::string>();

	return std::find(all.begin(), all.end(), name) != all.end();
}

const BpfLaw *BpfVariants::law_of(const std::string &dir) const
{
	for (const BpfLaw &law : bpf_laws())
		if (host_.exists(dir + "/" + std::string(law.params_map)))
			return &law;
	return nullptr;
}

std::size_t BpfVariants::flows_of(const std::string &name)
{
	const auto flows = sockets_.tcp_sockets(states_connected);

	if (!flows)
		return 0;
	return static_cast<std::size_t>(
		std::count_if(flows->begin(), flows->end(), [&](const Flow &f) { return f.cc == name; }));
}

Result<std::string> BpfVariants::root_cgroup() const
{
	// `ip netns exec` has a /sys without it: then as pid 1 sees it.
	for (const auto &[process, root] : {std::pair("self", ""), std::pair("1", "/proc/1/root")}) {
		const auto mounts = system_.read_file(std::string("/proc/") + process + "/mounts");

		for (const std::string &line : split(mounts ? *mounts : "", '\n'))
			if (const auto fields = words(line); fields.size() > 2 && fields[2] == "cgroup2")
				return root + fields[1];
	}
	return Error{"no cgroup2 is mounted for the programs to attach to: mount -t cgroup2 none DIR, or "
		     "--no-echo"};
}

/* --- What may be done ------------------------------------------------------------------ */

Result<std::shared_ptr<void>> BpfVariants::may_change(const std::string &name, bool dry_run) const
{
	RETURN_IF_ERROR(check_bpf_name(name));
	return hold_changes(system_, dry_run);
}

Result<void> BpfVariants::kernel_can(BpfReport &report, bool dry_run)
{
	const BpfAbilities can = host_.abilities();

	if (!can.btf)
		return Error{"this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF"};
	if (!can.struct_ops)
		return Error{"this kernel cannot run congestion controls in BPF: it needs CONFIG_BPF_JIT "
			     "and struct_ops (5.6)"};
	return need_bpffs(host_, report, dry_run);
}

Result<void> BpfVariants::check_name_free(const std::string &name) const
{
	if (!registered(name))
		return {};

	const auto all = host_.all_ops();

	if (all)
		for (const BpfOpsStatus &ops : *all)
			if (ops.name == name && (ops.state == BpfOpsStatus::State::in_use || ops.by_link))
				return Error{"the name " + name +
					     " is taken by a BPF program that swiftctl did not load "
					     "(struct_ops map id " +
					     std::to_string(ops.id) + ")"};
	return Error{"the name " + name + " is taken by a module, or the kernel itself"};
}

Result<BpfVariants::Plan> BpfVariants::plan(const BpfLoadRequest &request, BpfReport &report, const std::string &running)
{
	Plan plan;

	plan.dir = bpf_dir(request.name);
	plan.staging = staging_of(request.name);
	plan.file = object_text(request.file, request.name);
	plan.by_link = host_.abilities().ops_links && !request.plain;

	ASSIGN_OR_RETURN(plan.object, open_object(host_, request.file, request.name));
	for (const BpfMap &m : plan.object->maps()) {
		if (m.ops && !plan.ops_map.empty())
			return Error{"more than one congestion control in the object", plan.file};
		if (m.ops)
			plan.ops_map = m.name;
		else if (!m.internal)
			plan.maps.push_back(m);
	}
	if (plan.ops_map.empty())
		return Error{"no congestion control (struct_ops) in the object", plan.file};
	if (plan.ops_map != request.name)
		return Error{"the object " + plan.file + " holds another congestion control", plan.ops_map,
			     request.name};
	for (const BpfLaw &law : bpf_laws())
		for (const BpfMap &m : plan.maps) {
			if (m.name == law.params_map)
				plan.law = &law;
			if (!law.profiles_map.empty() && m.name == law.profiles_map)
				plan.profiles = m;
		}
	if (!plan.law)
		return Error{"no map of tunables (swift_params, timely_params, gcn_params) in the object",
			     plan.file};
	for (const BpfMap &m : plan.maps)
		if ((m.name == plan.law->params_map || m.name == plan.profiles.name) &&
		    m.value_bytes != plan.law->params_bytes)
			return Error{"swiftctl and " + plan.file + " are of different versions: map " + m.name +
				     " has values of " + std::to_string(m.value_bytes) + " bytes, not " +
				     std::to_string(plan.law->params_bytes)};

	plan.values = plan.law->defaults(request.name);
	for (const std::string &each : request.set)
		if (auto ok = plan.law->assign(plan.values, each); !ok) {
			report.usage = true;
			return ok.error();
		}
	auto params = plan.law->prepare(plan.values);

	if (!params) {
		report.usage = true;
		return params.error();
	}
	plan.params = std::move(*params);

	for (const BpfProgram &p : plan.object->programs()) {
		if (p.kind == BpfProgramKind::other)
			return Error{"swiftctl does not know where to attach program " + p.name + " (" +
					     p.section + ") of the object",
				     plan.file};
		if (p.kind == BpfProgramKind::sock_ops &&
		    !(running.empty() ? request.echo : host_.exists(running + "/link_" + p.name))) {
			RETURN_IF_ERROR(plan.object->skip_program(p.name));
			continue;
		}
		plan.programs.push_back(p);
	}
	if (!std::any_of(plan.programs.begin(), plan.programs.end(), on_cgroup))
		return plan;
	if (!request.cgroup.empty()) {
		plan.cgroup = request.cgroup;
		return plan;
	}
	ASSIGN_OR_RETURN(plan.cgroup, root_cgroup());
	return plan;
}

/* --- Taking down --------------------------------------------------------------------- */

Result<void> BpfVariants::remove_pins(const std::string &dir)
{
	ASSIGN_OR_RETURN(auto names, host_.pins(dir));
	Result<void> result;

	for (const std::string &name : names)
		if (auto ok = host_.remove_pin(dir + "/" + name); !ok)
			result = ok;
	if (auto ok = host_.remove_dir(dir); !ok)
		result = ok;
	if (auto ok = host_.remove_dir(bpf_pin_dir); !ok)
		result = ok;
	return result;
}

Result<void> BpfVariants::take_down(const std::string &dir)
{
	ASSIGN_OR_RETURN(auto names, host_.pins(dir));
	Result<void> result;

	// First no flow chooses it any more, then it loses what its flows live on.
	if (host_.exists(dir + "/ops_link"))
		host_.detach(dir + "/ops_link");
	else if (host_.exists(dir + "/ops"))
		if (auto ops = host_.ops(dir + "/ops");
		    ops && ops->state == BpfOpsStatus::State::in_use && !ops->by_link)
			result = host_.unregister_ops(ops->id);
	if (!result)
		return result; // the pins are all there is to get at it
	for (const std::string &name : names)
		if (is_link_pin(name))
			host_.detach(dir + "/" + name);
	return remove_pins(dir);
}

// What a killed loader left is taken down; a killed swap's, which has come as far as to
// register the new one, is brought to its end.
Result<void> BpfVariants::mend(const std::string &name)
{
	const std::string dir = bpf_dir(name);
	const std::string staging = staging_of(name);

	if (!host_.exists(staging))
		return {};
	if (!host_.exists(dir))
		return take_down(staging);

	const auto fresh = host_.ops(staging + "/ops");
	const bool plain_done = fresh && !fresh->by_link && fresh->state == BpfOpsStatus::State::in_use;

	if (plain_done || host_.exists(staging + "/ops_link"))
		RETURN_IF_ERROR(host_.exchange(staging, dir));
	return remove_pins(staging);
}

Result<void> BpfVariants::put_default_back(const std::string &name, BpfReport &report, bool dry_run)
{
	const auto remembered = system_.read_file(default_file(name));
	const auto said = words(remembered ? *remembered : std::string()); // the name, and the boot
	std::string to = said.size() == 2 && said[1] == boot_id(system_) ? said[0] : std::string();

	if (default_cc() == name) {
		for (const char *other : {"cubic", "reno"})
			if (to.empty() || to == name || !registered(to))
				to = other;
		report.steps.push_back((dry_run ? "would set " : "set ") + std::string(default_cc_sysctl) +
				       " back to " + to);
		if (!dry_run)
			RETURN_IF_ERROR(write_sysctl(system_, default_cc_sysctl, to));
	}
	if (dry_run)
		return {};
	// Whoever was to go back to this one goes back to what was before it.
	const auto files = to.empty() ? Result<std::vector<std::string>>(Error{}) : system_.list_dir(state_dir(Keeper::tools));

	for (const std::string &file : files ? *files : std::vector<std::string>()) {
		const std::string path = std::string(state_dir(Keeper::tools)) + "/" + file;

		if (!file.starts_with("bpf-") || !file.ends_with(".default") || path == default_file(name))
			continue;
		if (const auto other = system_.read_file(path); other && words(*other) == std::vector{name, boot_id(system_)})
			RETURN_IF_ERROR(system_.replace_file(path, to + " " + boot_id(system_) + "\n", 0644));
	}
	return system_.remove_file(default_file(name));
}

// Telemetry that cannot be had is no reason to do without the congestion control.
void BpfVariants::let_watch(const std::string &name, BpfReport &report)
{
	if (auto ok = BpfTelemetry(system_, host_).watch(name); !ok)
		report.notes.push_back("the telemetry does not watch it: " + ok.error().text());
}

BpfReport BpfVariants::unload(const std::string &name, bool dry_run)
{
	BpfReport report;
	const auto failed = [&](const Error &e) {
		report.error = e;
		return report;
	};
	const std::string dir = bpf_dir(name);
	const std::string staging = staging_of(name);
	const auto lock = may_change(name, dry_run);

	if (!lock) {
		report.usage = !check_bpf_name(name);
		return failed(lock.error());
	}
	if (!host_.exists(dir) && !host_.exists(staging)) {
		if (auto free = check_name_free(name); !free)
			return failed(Error{"not loaded by swiftctl: " + free.error().text()});
		return failed(Error{"not loaded", name});
	}

	const std::size_t flows = flows_of(name);

	if (auto ok = put_default_back(name, report, dry_run); !ok)
		return failed(ok.error());
	if (dry_run) {
		report.steps.push_back("would unregister " + name + ", detach its programs and remove " + dir);
		return report;
	}
	BpfTelemetry(system_, host_).forget(name);
	for (const std::string &each : {dir, staging})
		if (auto ok = take_down(each); !ok)
			return failed(ok.error());
	// Somebody has removed the pin, but not the registration.
	if (registered(name))
		if (const auto all = host_.all_ops())
			for (const BpfOpsStatus &ops : *all)
				if (ops.name == name && ops.state == BpfOpsStatus::State::in_use && !ops.by_link)
					if (auto ok = host_.unregister_ops(ops.id); !ok)
						return failed(ok.error());
	for (int i = 0; registered(name) && i < gone_attempts; i++)
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	if (registered(name))
		return failed(Error{name + " is still registered: something besides swiftctl's pins, all "
					   "of which are gone, holds it"});
	report.steps.push_back("unregistered " + name + ", detached its programs, removed " + dir);
	if (flows > 0)
		report.notes.push_back("flows of this network namespace that use it until they close: " +
				       std::to_string(flows));
	return report;
}

/* --- Loading --------------------------------------------------------------------------- */

Result<void> BpfVariants::pin_all(const Plan &plan, const std::string &dir)
{
	RETURN_IF_ERROR(plan.object->pin_map(plan.ops_map, dir + "/ops"));
	for (const BpfMap &m : plan.maps)
		RETURN_IF_ERROR(plan.object->pin_map(m.name, dir + "/" + m.name));
	for (const BpfProgram &p : plan.programs)
		RETURN_IF_ERROR(plan.object->pin_program(p.name, dir + "/prog_" + p.name));
	return {};
}

Result<void> BpfVariants::build(const BpfLoadRequest &request, Plan &plan, BpfReport &report, Undo &undo)
{
	BpfObject &object = *plan.object;
	const std::string &dir = plan.staging;

	if (auto ok = object.load(plan.by_link); !ok) {
		report.verifier_log = object.verifier_log();
		return ok;
	}
	undo.add([this, dir] { (void)remove_pins(dir); });
	for (const std::string &each : {std::string(bpf_pin_dir), dir})
		RETURN_IF_ERROR(host_.make_dir(each));
	RETURN_IF_ERROR(pin_all(plan, dir));

	BpfMap tunables;

	tunables.name = "swift_tunables";
	tunables.key_bytes = sizeof(BpfPrefix);
	tunables.value_bytes = static_cast<std::uint32_t>(plan.values.size() * sizeof(std::uint32_t));
	tunables.max_entries = plan.profiles.max_entries + 1;
	RETURN_IF_ERROR(host_.create_hash(tunables, dir + "/tunables"));
	RETURN_IF_ERROR(host_.write(dir + "/tunables", default_key(), bytes_of(plan.values)));
	RETURN_IF_ERROR(object.write_map(std::string(plan.law->params_map), bpf_first_key(), plan.params));

	for (const BpfProgram &p : plan.programs) {
		Result<void> ok;

		if (p.kind == BpfProgramKind::tracing)
			ok = object.attach_tracing(p.name);
		else if (on_cgroup(p))
			ok = object.attach_cgroup(p.name, plan.cgroup);
		if (!ok)
			return ok;
	}
	// The last: a flow that chooses it finds everything in place.
	RETURN_IF_ERROR(object.register_ops());
	if (!plan.by_link)
		undo.add([this, dir] {
			if (auto ops = host_.ops(dir + "/ops"))
				(void)host_.unregister_ops(ops->id);
		});
	ASSIGN_OR_RETURN(auto ops, host_.ops(dir + "/ops"));
	if (ops.name != request.name)
		return Error{"the object " + plan.file + " registers another name", ops.name, request.name};
	return {};
}

Result<void> BpfVariants::pin_links(const Plan &plan)
{
	if (plan.by_link)
		RETURN_IF_ERROR(plan.object->pin_ops_link(plan.staging + "/ops_link"));
	for (const BpfProgram &p : plan.programs)
		if (p.kind == BpfProgramKind::tracing || on_cgroup(p))
			RETURN_IF_ERROR(plan.object->pin_link(p.name, plan.staging + "/link_" + p.name));
	return {};
}

BpfReport BpfVariants::load(const BpfLoadRequest &request)
{
	BpfReport report;
	const auto failed = [&](const Error &e) {
		report.notes.clear();
		return report.failed(e);
	};
	const std::string &name = request.name;
	const auto lock = may_change(name, request.dry_run);

	if (!lock) {
		report.usage = !check_bpf_name(name);
		return failed(lock.error());
	}
	if (auto ok = kernel_can(report, request.dry_run); !ok)
		return failed(ok.error());
	if (host_.exists(bpf_dir(name)))
		return failed(Error{name + " is loaded already: swiftctl bpf swap replaces it, set tunes it"});
	if (host_.exists(staging_of(name))) {
		report.notes.push_back("a loader of " + name + " was killed: what it left is taken down");
		if (!request.dry_run)
			if (auto ok = mend(name); !ok)
				return failed(ok.error());
	}
	if (auto ok = check_name_free(name); !ok)
		return failed(ok.error());

	auto plan = this->plan(request, report);

	if (!plan)
		return failed(plan.error());

	const bool dry = request.dry_run;
	const std::string before = default_cc();

	report.registration = plan->by_link ? "link" : "plain";
	report.steps.push_back((dry ? "would load " : "loaded ") + plan->file +
			       (request.set.empty() ? "" : " with " + assignments(request.set)));
	for (const BpfProgram &p : plan->programs)
		if (p.kind == BpfProgramKind::tracing)
			report.steps.push_back((dry ? "would attach " : "attached ") + p.name + " (" + p.section +
					       ")");
		else if (on_cgroup(p))
			report.steps.push_back((dry ? "would attach " : "attached ") + p.name + " (" + p.section +
					       ") to " + plan->cgroup + ", beside what is there");
	report.steps.push_back((dry ? "would register " : "registered ") + name +
			       (plan->by_link ? " by a link, pinned in " :
						" plainly (no link), until it is unloaded; pinned in ") +
			       plan->dir);
	if (request.make_default)
		report.steps.push_back((dry ? "would set " : "set ") + std::string(default_cc_sysctl) + " to " + name +
				       ", from " + before);
	if (plan->law->name == "swift")
		report.notes.emplace_back("hosts that receive from it want `quickack 1` on their routes: BPF "
					  "cannot ask for immediate ACKs as the module does");
	if (request.dry_run)
		return report;

	Undo undo;

	if (auto ok = build(request, *plan, report, undo); !ok)
		return failed(ok.error());
	if (auto ok = pin_links(*plan); !ok)
		return failed(ok.error());
	if (auto ok = host_.rename(plan->staging, plan->dir); !ok)
		return failed(ok.error());
	undo.add([&] { (void)host_.rename(plan->dir, plan->staging); });
	if (request.make_default && before != name) {
		if (auto ok = system_.replace_file(default_file(name), before + " " + boot_id(system_) + "\n", 0644); !ok)
			return failed(ok.error());
		undo.add([&] { (void)system_.remove_file(default_file(name)); });
		if (auto ok = write_sysctl(system_, default_cc_sysctl, name); !ok)
			return failed(ok.error());
	}
	undo.forget();
	let_watch(name, report);
	return report;
}

/* --- Swapping --------------------------------------------------------------------------- */

// An unregistered struct_ops cannot be registered again; one like it can.
Result<void> BpfVariants::register_again(const std::string &dir)
{
	const std::string copy = dir + "/ops~copy";

	if (auto ok = host_.register_copy(dir + "/ops", copy); !ok) {
		(void)host_.remove_pin(copy);
		return ok;
	}
	RETURN_IF_ERROR(host_.remove_pin(dir + "/ops"));
	return host_.rename(copy, dir + "/ops");
}

Result<void> BpfVariants::exchange_ops(Plan &plan, Undo &undo, BpfReport &report)
{
	const std::string old_ops = plan.dir + "/ops";
	const std::string new_ops = plan.staging + "/ops";

	if (plan.by_link) {
		const std::string link = plan.dir + "/ops_link";

		RETURN_IF_ERROR(plan.object->prepare_ops());
		RETURN_IF_ERROR(host_.replace_ops(link, new_ops));
		undo.add([this, link, old_ops] { (void)host_.replace_ops(link, old_ops); });
		return host_.pin_again(link, plan.staging + "/ops_link");
	}

	ASSIGN_OR_RETURN(auto running, host_.ops(old_ops));
	if (running.state == BpfOpsStatus::State::in_use) {
		RETURN_IF_ERROR(host_.unregister_ops(running.id));
		undo.add([this, &report, dir = plan.dir] {
			if (auto ok = register_again(dir); !ok)
				report.notes.push_back("the old one could not be registered again: " +
						       ok.error().text());
		});
	}
	RETURN_IF_ERROR(plan.object->register_ops());
	undo.add([this, new_ops] {
		if (auto ops = host_.ops(new_ops))
			(void)host_.unregister_ops(ops->id);
	});
	return {};
}

// The new programs beside the old, with the old one's maps; what can be replaced in its place is.
Result<void> BpfVariants::exchange(const BpfLoadRequest &request, Plan &plan, BpfReport &report)
{
	Undo undo;
	BpfObject &object = *plan.object;
	std::vector<std::string> own_links; // of programs that were not attached before

	if (auto ok = object.load(plan.by_link); !ok) {
		report.verifier_log = object.verifier_log();
		return ok;
	}
	undo.add([this, &plan] { (void)remove_pins(plan.staging); });
	RETURN_IF_ERROR(host_.make_dir(plan.staging));
	RETURN_IF_ERROR(pin_all(plan, plan.staging));
	RETURN_IF_ERROR(host_.pin_again(plan.dir + "/tunables", plan.staging + "/tunables"));
	for (const BpfProgram &p : plan.programs) {
		const std::string link = plan.dir + "/link_" + p.name;
		const std::string old_program = plan.dir + "/prog_" + p.name;
		Result<void> ok;

		if (p.kind == BpfProgramKind::congestion)
			continue;
		if (on_cgroup(p) && host_.exists(link)) {
			ok = host_.replace_program(link, plan.staging + "/prog_" + p.name);
			if (ok)
				undo.add([this, link, old_program] {
					(void)host_.replace_program(link, old_program);
				});
			if (ok)
				ok = host_.pin_again(link, plan.staging + "/link_" + p.name);
		} else {
			ok = p.kind == BpfProgramKind::tracing ? object.attach_tracing(p.name) :
								 object.attach_cgroup(p.name, plan.cgroup);
			own_links.push_back(p.name);
		}
		if (!ok)
			return ok;
	}
	RETURN_IF_ERROR(exchange_ops(plan, undo, report));
	ASSIGN_OR_RETURN(auto ops, host_.ops(plan.staging + "/ops"));
	if (ops.name != request.name)
		return Error{"the object " + plan.file + " registers another name", ops.name, request.name};
	for (const std::string &p : own_links)
		RETURN_IF_ERROR(object.pin_link(p, plan.staging + "/link_" + p));
	RETURN_IF_ERROR(host_.exchange(plan.staging, plan.dir));
	undo.forget();
	return {};
}

BpfReport BpfVariants::swap(const BpfLoadRequest &request)
{
	BpfReport report;
	const auto failed = [&](const Error &e) { return report.failed(e); };
	const std::string &name = request.name;
	const std::string dir = bpf_dir(name);
	const auto lock = may_change(name, request.dry_run);

	if (!lock) {
		report.usage = !check_bpf_name(name);
		return failed(lock.error());
	}
	if (auto ok = kernel_can(report, request.dry_run); !ok)
		return failed(ok.error());
	if (!host_.exists(dir))
		return failed(Error{name + " is not loaded: swiftctl bpf load does that"});
	if (!request.dry_run)
		if (auto ok = mend(name); !ok)
			return failed(ok.error());

	// As it was loaded: by a link or not, with the echo or not, on the same cgroup.
	BpfLoadRequest same = request;
	const BpfStatus now = status(name, dir);
	const BpfLaw *law = law_of(dir);

	same.plain = !host_.exists(dir + "/ops_link");
	same.cgroup = now.cgroups.empty() ? "" : now.cgroups[0];

	auto plan = this->plan(same, report, dir);

	if (!plan)
		return failed(plan.error());
	if (plan->law != law)
		return failed(Error{"another law than the one that runs", std::string(plan->law->name),
				    law ? std::string(law->name) : ""});
	// The new one gets the values as they are, and what cannot be read cannot be set.
	const auto tunables = host_.map(dir + "/tunables");

	if (!tunables)
		return failed(tunables.error());
	if (tunables->value_bytes != law->tunables.size() * sizeof(std::uint32_t))
		return failed(Error{name + " was loaded by a swiftctl of another version, with other "
					   "tunables: unload it and load the new one"});
	for (const BpfMap &m : plan->maps) {
		const std::string pin = dir + "/" + m.name;

		if (!host_.exists(pin))
			continue;
		auto old = host_.map(pin);

		if (!old)
			return failed(old.error());
		if (!old->same_layout(m))
			return failed(Error{"map " + m.name + " of " + plan->file +
					    " has another layout than the one that runs: unload it and load "
					    "the new one"});
		if (auto ok = plan->object->reuse_map(m.name, pin); !ok)
			return failed(ok.error());
	}

	const bool dry = request.dry_run;

	report.registration = plan->by_link ? "link" : "plain";
	report.steps.push_back((dry ? "would load " : "loaded ") + plan->file +
			       ", with the maps of the one that runs");
	if (plan->by_link)
		report.steps.push_back((dry ? "would replace " : "replaced ") + name +
				       " in its link, atomically");
	else
		report.steps.push_back((dry ? "would unregister " : "unregistered ") + name +
				       (dry ? " and register" : " and registered") +
				       " the new one (no link: not atomic)");
	if (request.dry_run)
		return report;
	if (auto done = exchange(same, *plan, report); !done)
		return failed(done.error());
	report.notes.emplace_back("flows that exist keep the old programs until they close");
	let_watch(name, report);
	// What is in the staging directory now is the old one.
	if (auto ok = remove_pins(plan->staging); !ok)
		report.notes.push_back(ok.error().text());
	// The default is a pointer to the old one, which the kernel looks up by name when set.
	if (default_cc() == name)
		if (auto ok = write_sysctl(system_, default_cc_sysctl, name); !ok)
			report.notes.push_back(ok.error().text());
	return report;
}

/* --- Tuning ------------------------------------------------------------------------------- */

Result<BpfSettings> BpfVariants::get(const std::string &name)
{
	const std::string dir = bpf_dir(name);
	BpfSettings out;

	RETURN_IF_ERROR(check_bpf_name(name));
	if (!system_.is_root())
		return Error{"needs root: the pins of BPF programs are root's"};
	if (!host_.exists(dir))
		return Error{"not loaded", name};
	out.law = law_of(dir);
	if (!out.law)
		return Error{"its map of tunables is missing: unload it and load it again", name};

	ASSIGN_OR_RETURN(auto keys, host_.keys(dir + "/tunables"));
	for (const BpfBytes &key : keys) {
		BpfPrefix prefix;
		ASSIGN_OR_RETURN(auto bytes, host_.read(dir + "/tunables", key));

		if (!bytes || key.size() != sizeof(prefix)) // it has gone meanwhile
			continue;
		std::memcpy(&prefix, key.data(), sizeof(prefix));

		ASSIGN_OR_RETURN(auto values, values_of(*out.law, *bytes));
		if (prefix.length == default_key_length)
			out.values = values;
		else
			out.profiles.emplace_back(prefix, values);
	}
	std::sort(out.profiles.begin(), out.profiles.end());
	if (out.values.empty())
		return Error{"its values are missing: unload it and load it again", name};

	const auto same = [&](const std::string &map, const BpfBytes &key, const BpfValues &values) {
		const auto used = host_.read(dir + "/" + map, key);
		const auto wanted = out.law->prepare(values);

		return used && *used && wanted && **used == *wanted;
	};

	out.differs = !same(std::string(out.law->params_map), bpf_first_key(), out.values);
	for (const auto &[prefix, values] : out.profiles)
		out.differs |= !same(std::string(out.law->profiles_map), key_of(prefix), values);
	if (const std::string profiles = dir + "/" + std::string(out.law->profiles_map);
	    !out.law->profiles_map.empty() && host_.exists(profiles))
		if (const auto used = host_.keys(profiles))
			out.differs |= used->size() != out.profiles.size();
	return out;
}

BpfReport BpfVariants::set(const BpfSetRequest &request)
{
	BpfReport report;
	const auto failed = [&](const Error &e) { return report.failed(e); };
	const auto misused = [&](const Error &e) {
		report.usage = true;
		return failed(e);
	};
	const std::string dir = bpf_dir(request.name);
	const bool dry = request.dry_run;
	std::optional<BpfPrefix> prefix;

	if (auto ok = check_bpf_name(request.name); !ok)
		return misused(ok.error());
	if (!request.prefix.empty()) {
		auto parsed = BpfPrefix::parse(request.prefix);

		if (!parsed)
			return misused(parsed.error());
		prefix = *parsed;
	}
	if (request.erase && (!prefix || !request.set.empty()))
		return misused(Error{"--delete goes with --prefix, and without values"});
	if (!request.erase && request.set.empty())
		return misused(Error{"nothing to set: tunable=value"});
	if (!system_.is_root())
		return failed(Error{"needs root"});
	const auto lock = hold_changes(system_, request.dry_run);

	if (!lock)
		return failed(lock.error());

	auto now = get(request.name);

	if (!now)
		return failed(now.error());

	const BpfLaw &law = *now->law;
	const std::string values_pin = dir + "/tunables";
	const std::string params_pin =
		dir + "/" + std::string(prefix ? law.profiles_map : law.params_map);
	const BpfBytes values_key = prefix ? key_of(*prefix) : default_key();
	const BpfBytes params_key = prefix ? key_of(*prefix) : bpf_first_key();
	const auto profile = std::find_if(now->profiles.begin(), now->profiles.end(),
					  [&](const auto &p) { return prefix == p.first; });
	const bool there = !prefix || profile != now->profiles.end();

	if (prefix && (law.profiles_map.empty() || !host_.exists(params_pin)))
		return failed(Error{request.name + " has no profiles"});
	if (request.erase) {
		if (!there)
			return failed(Error{"no profile for this prefix", prefix->text()});
		report.steps.push_back((dry ? "would delete" : "deleted") + std::string(" the profile of ") +
				       prefix->text());
		if (request.dry_run)
			return report;
		if (auto ok = host_.erase(params_pin, params_key); !ok)
			return failed(ok.error());
		if (auto ok = host_.erase(values_pin, values_key); !ok)
			return failed(ok.error());
		return report;
	}

	// A new profile begins as what all others have.
	const BpfValues before = prefix && there ? profile->second : now->values;
	BpfValues values = before;

	for (const std::string &each : request.set)
		if (auto ok = law.assign(values, each); !ok)
			return misused(ok.error());
	auto params = law.prepare(values);

	if (!params)
		return misused(params.error());
	for (std::size_t i = 0; i < values.size(); i++)
		if (values[i] != before[i])
			report.steps.push_back((dry ? "would set " : "set ") + std::string(law.tunables[i].name) + " " +
					       law.tunables[i].text(before[i]) + " -> " +
					       law.tunables[i].text(values[i]) +
					       (prefix ? " for " + prefix->text() : ""));
	if (prefix && !there && report.steps.empty())
		report.steps.push_back((dry ? "would make" : "made") + std::string(" a profile for ") +
				       prefix->text());
	if (request.dry_run)
		return report;

	const auto refused = [&](const Error &e) {
		if (prefix && (e.code == ENOSPC || e.code == E2BIG)) // a full trie, a full hash
			return failed(Error{"no room for another profile: " +
					    std::to_string(now->profiles.size()) +
					    " are all that fit; --delete one"});
		return failed(e);
	};

	// The values first: if we are killed between the two, get says so and set mends it.
	if (auto ok = host_.write(values_pin, values_key, bytes_of(values)); !ok)
		return refused(ok.error());
	if (auto ok = host_.write(params_pin, params_key, *params); !ok) {
		(void)(there ? host_.write(values_pin, values_key, bytes_of(before)) :
			       host_.erase(values_pin, values_key));
		return refused(ok.error());
	}
	return report;
}

Result<void> BpfVariants::set(const BpfSetRequest &request, double patience_s)
{
	using Clock = std::chrono::steady_clock;
	const auto until = Clock::now() + std::chrono::duration<double>(patience_s);

	for (;;) {
		const BpfReport report = set(request);

		if (!report.error)
			return {};
		if (report.error->code != EWOULDBLOCK || Clock::now() >= until)
			return *report.error;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
}

Result<const BpfValues *> BpfSettings::values_of(const std::string &prefix) const
{
	if (prefix.empty())
		return &values;
	ASSIGN_OR_RETURN(const auto wanted, BpfPrefix::parse(prefix));
	const auto profile = std::find_if(profiles.begin(), profiles.end(), [&](const auto &p) { return p.first == wanted; });

	return profile != profiles.end() ? &profile->second : &values;
}

/* --- Listing -------------------------------------------------------------------------------- */

BpfStatus BpfVariants::status(const std::string &name, const std::string &dir)
{
	BpfStatus s;
	const auto pins = host_.pins(dir);

	s.name = name;
	s.registration = "none";
	if (auto ops = host_.ops(dir + "/ops")) {
		s.ops = *ops;
		if (ops->state == BpfOpsStatus::State::in_use)
			s.registration = "plain";
	}
	if (host_.exists(dir + "/ops_link") && registered(name))
		s.registration = "link";
	for (const std::string &pin : pins ? *pins : std::vector<std::string>()) {
		if (is_program_pin(pin))
			if (auto p = host_.program(dir + "/" + pin)) {
				p->name = pin.substr(5); // whole, where the kernel keeps 15 characters
				s.programs.push_back(*p);
				if (s.since_ns == 0 || p->loaded_ns < s.since_ns)
					s.since_ns = p->loaded_ns;
			}
		if (is_link_pin(pin))
			if (auto path = host_.cgroup_of(dir + "/" + pin);
			    path && std::find(s.cgroups.begin(), s.cgroups.end(), *path) == s.cgroups.end())
				s.cgroups.push_back(*path);
	}
	if (const BpfLaw *law = law_of(dir)) {
		s.law = law->name;
		if (!law->profiles_map.empty())
			if (const auto keys = host_.keys(dir + "/" + std::string(law->profiles_map)))
				s.profiles = keys->size();
	}
	if (auto stamps = host_.read(dir + "/swift_stamps", bpf_first_key()); stamps && *stamps)
		s.stamps = stamps_of(**stamps);
	s.flows = flows_of(name);
	s.is_default = default_cc() == name;
	return s;
}

// What the kernel runs whose pins we do not see, by its struct_ops maps. A name that is registered is
// one of theirs: the newest, if older ones with flows are left.
std::vector<BpfStatus> BpfVariants::without_pins(const std::vector<BpfStatus> &pinned)
{
	const auto all = host_.all_ops();
	std::map<std::string, BpfOpsStatus> found;
	std::vector<BpfStatus> out;

	for (const BpfOpsStatus &ops : all ? *all : std::vector<BpfOpsStatus>()) {
		const bool may_be = ops.state == BpfOpsStatus::State::in_use ||
				    (ops.by_link && ops.state == BpfOpsStatus::State::ready);
		const bool known = std::any_of(pinned.begin(), pinned.end(), [&](const BpfStatus &s) {
			return s.name == ops.name && !s.leftover;
		});

		if (may_be && !known && registered(ops.name) && ops.id > found[ops.name].id)
			found[ops.name] = ops;
	}
	for (const auto &[name, ops] : found) {
		const auto parts = host_.parts_of_ops(ops.id);

		if (ops.id == 0 || !parts)
			continue;
		BpfStatus &s = out.emplace_back();

		s.name = name;
		s.pinned = false;
		s.registration = ops.by_link ? "link" : "plain";
		s.ops = ops;
		s.programs = parts->programs;
		for (const BpfProgramStatus &p : s.programs)
			if (s.since_ns == 0 || p.loaded_ns < s.since_ns)
				s.since_ns = p.loaded_ns;
		for (const BpfLaw &law : bpf_laws())
			if (std::find(parts->maps.begin(), parts->maps.end(), law.params_map) != parts->maps.end())
				s.law = law.name;
		s.flows = flows_of(name);
		s.is_default = default_cc() == name;
	}
	return out;
}

Result<BpfListing> BpfVariants::list()
{
	BpfListing out;

	if (!system_.is_root())
		return Error{"needs root: the pins of BPF programs are root's"};
	out.abilities = host_.abilities();

	ASSIGN_OR_RETURN(auto names, host_.pins(bpf_pin_dir));
	for (const std::string &pin : names) {
		const bool leftover = pin.ends_with("~new");
		const std::string name = leftover ? pin.substr(0, pin.size() - 4) : pin;

		if (!check_bpf_name(name)) // the telemetry, and what is not ours
			continue;
		out.loaded.push_back(status(name, bpf_dir(pin)));
		out.loaded.back().leftover = leftover;
	}

	for (BpfStatus &s : without_pins(out.loaded))
		out.loaded.push_back(std::move(s));
	out.telemetry = BpfTelemetry(system_, host_).status();
	for (const std::string &name : host_.built_in())
		if (name != telemetry_name &&
		    std::none_of(out.loaded.begin(), out.loaded.end(),
				 [&](const BpfStatus &s) { return s.name == name && !s.leftover; }))
			out.loadable.push_back(name);
	return out;
}

} // namespace swift
