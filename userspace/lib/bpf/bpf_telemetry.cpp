// SPDX-License-Identifier: MIT
#include "bpf_telemetry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "bpf_variant.h"
#include "maps.h"
#include "telemetry.h"
#include "telemetry_maps.h"
#include "text.h"

namespace swift {

namespace {

constexpr const char *tracepoint = "swift_sample";
constexpr const char *decided = "swift_decided_at"; // of a variant
constexpr const char *module_program = "telemetry_module";
constexpr const char *variant_program = "telemetry_variant";
constexpr const char *tx_program = "telemetry_tx";
constexpr const char *tx_nic_program = "telemetry_tx_nic";
constexpr std::size_t cc_bytes = 16;
constexpr const char *module_cc = "swift";
constexpr std::chrono::milliseconds memory_patience{256}; // the last wait; half a second in all

std::string staging_dir()
{
	return telemetry_dir() + "~new";
}

BpfBytes cc_constant(const std::string &name)
{
	std::array<char, cc_bytes> out{};

	std::copy_n(name.begin(), std::min(name.size(), out.size() - 1), out.begin());
	return bpf_bytes(out);
}

// "link_bpf_swift~57": name and number. (bpffs takes no dots, names of variants no tildes.)
std::uint32_t id_in(const std::string &pin)
{
	const auto id = parse_int("", pin.substr(pin.rfind('~') + 1), 0, 0xffffffffLL);

	return id ? static_cast<std::uint32_t>(*id) : 0;
}

// As the map has it: of the mapped address.
Result<bpf_swift_prefix> network(const std::string &text)
{
	ASSIGN_OR_RETURN(auto parsed, BpfPrefix::parse(text));

	static_assert(sizeof(BpfPrefix) == sizeof(bpf_swift_prefix));

	bpf_swift_prefix out{};

	std::memcpy(&out, &parsed, sizeof(out));
	return out;
}

} // namespace

struct BpfTelemetry::Plan {
	std::string file;
	std::vector<bpf_swift_prefix> networks;
	telemetry_settings settings{};
	std::uint32_t max_flows = 0;
	std::uint32_t max_prefixes = 0;
	std::vector<BpfMap> maps;
	std::vector<std::string> programs; // that are loaded
	std::unique_ptr<BpfObject> object;
};

std::vector<std::string> BpfTelemetry::pins_of(const std::string &dir, const std::string &start) const
{
	auto pins = host_.pins(dir);
	std::vector<std::string> out;

	for (std::string &pin : pins ? *pins : std::vector<std::string>())
		if (pin.starts_with(start))
			out.push_back(std::move(pin));
	return out;
}

std::vector<std::string> BpfTelemetry::variants() const
{
	const auto names = host_.pins(bpf_pin_dir);
	std::vector<std::string> out;

	for (const std::string &name : names ? *names : std::vector<std::string>())
		if (check_bpf_name(name) && host_.exists(bpf_dir(name) + "/telemetry_on"))
			out.push_back(name);
	return out;
}

/* --- Watching -------------------------------------------------------------------------- */

Result<void> BpfTelemetry::make_other(const std::string &dir, const std::string &cc)
{
	telemetry_prefix_key key{};
	const telemetry_prefix nothing{};

	key.prefix_len = TELEMETRY_OTHER;
	std::copy_n(cc.begin(), std::min(cc.size(), sizeof(key.cc) - 1), key.cc);
	if (auto there = host_.read(dir + "/prefixes", bpf_bytes(key)); there && *there)
		return {};

	// Each CPU has one of these, of kilobytes. The kernel takes them from memory that it has at
	// hand, and where that is used up has more a moment later (mm/percpu.c, atomic allocation).
	auto made = host_.write(dir + "/prefixes", bpf_bytes(key), bpf_bytes(nothing));

	for (std::chrono::milliseconds wait{1};
	     !made && made.error().code == ENOMEM && wait <= memory_patience; wait *= 2) {
		std::this_thread::sleep_for(wait);
		made = host_.write(dir + "/prefixes", bpf_bytes(key), bpf_bytes(nothing));
	}
	return made;
}

Result<bool> BpfTelemetry::attach_module(const std::string &dir)
{
	const auto ok = host_.attach_raw_tracepoint(dir + "/prog_" + module_program, tracepoint,
						    dir + "/" + telemetry_module_link);

	if (ok)
		return true;
	if (ok.error().code == ENOENT)
		return false;
	return ok.error();
}

Result<std::unique_ptr<BpfObject>> BpfTelemetry::open_again(const std::string &dir,
							    const std::string &program)
{
	ASSIGN_OR_RETURN(auto settings, host_.read(dir + "/settings", bpf_first_key()));

	if (!settings || settings->size() != sizeof(telemetry_settings))
		return Error{"the telemetry was loaded by a swiftctl of another version: unload it and load it again"};

	telemetry_settings s{};

	std::memcpy(&s, settings->data(), sizeof(s));

	ASSIGN_OR_RETURN(auto object,
			 open_object(host_, std::string(s.object, strnlen(s.object, sizeof(s.object))), telemetry_name));
	for (const BpfProgram &p : object->programs())
		if (p.name != program)
			RETURN_IF_ERROR(object->skip_program(p.name));
	for (const BpfMap &m : object->maps())
		if (!m.internal)
			RETURN_IF_ERROR(object->reuse_map(m.name, dir + "/" + m.name));
	return object;
}

Result<void> BpfTelemetry::start(BpfObject &object, const std::string &program, const std::string &dir,
				 const std::string &pin)
{
	RETURN_IF_ERROR(object.load(false));
	RETURN_IF_ERROR(object.attach_tracing(program));
	RETURN_IF_ERROR(object.pin_program(program, dir + "/prog_" + pin));

	auto ok = object.pin_link(program, dir + "/link_" + pin);

	if (!ok)
		(void)host_.remove_pin(dir + "/prog_" + pin);
	return ok;
}

Result<void> BpfTelemetry::watch_program(const std::string &dir, const std::string &name,
					 const std::string &pin, std::uint32_t id)
{
	ASSIGN_OR_RETURN(auto object, open_again(dir, variant_program));

	RETURN_IF_ERROR(object->set_constant("cc_name", cc_constant(name)));
	RETURN_IF_ERROR(object->set_target(variant_program, pin, decided));
	RETURN_IF_ERROR(make_other(dir, name));
	return start(*object, variant_program, dir, name + "~" + std::to_string(id));
}

// By itself: a kernel that cannot have it loses nothing else.
Result<void> BpfTelemetry::watch_releases(const std::string &dir)
{
	ASSIGN_OR_RETURN(auto object, open_again(dir, tx_nic_program));

	return start(*object, tx_nic_program, dir, tx_nic_program);
}

Result<void> BpfTelemetry::watch_in(const std::string &dir, const std::string &name)
{
	const std::string variant = bpf_dir(name);
	std::vector<std::string> old = pins_of(dir, "link_" + name + "~");
	std::string pin;

	for (const std::string &each : pins_of(variant, "prog_"))
		if (each.ends_with("cong_control"))
			pin = variant + "/" + each;
	if (pin.empty() || !host_.exists(variant + "/telemetry_on"))
		return Error{"an older object: it tells no decisions"};

	ASSIGN_OR_RETURN(auto program, host_.program(pin));
	if (std::any_of(old.begin(), old.end(), [&](const std::string &each) { return id_in(each) == program.id; }))
		return {};
	RETURN_IF_ERROR(watch_program(dir, name, pin, program.id));
	// Flows of before a swap go on with the old programs: those are kept, older ones not.
	std::sort(old.begin(), old.end(), [](const std::string &a, const std::string &b) { return id_in(a) < id_in(b); });
	for (std::size_t i = 0; i + 1 < old.size(); i++) {
		(void)host_.remove_pin(dir + "/" + old[i]);
		(void)host_.remove_pin(dir + "/prog_" + old[i].substr(5));
	}
	return host_.write(variant + "/telemetry_on", bpf_first_key(), bpf_bytes(std::uint32_t{1}));
}

Result<void> BpfTelemetry::watch(const std::string &name)
{
	return host_.exists(telemetry_dir()) ? watch_in(telemetry_dir(), name) : Result<void>();
}

void BpfTelemetry::forget(const std::string &name)
{
	for (const char *start : {"link_", "prog_"})
		for (const std::string &pin : pins_of(telemetry_dir(), start + name + "~"))
			(void)host_.remove_pin(telemetry_dir() + "/" + pin);
}

/* --- Loading ---------------------------------------------------------------------------- */

Result<BpfTelemetry::Plan> BpfTelemetry::plan(const TelemetryRequest &r, BpfReport &report) const
{
	Plan plan;
	std::uint32_t v4_len = TELEMETRY_V4_LEN;

	report.usage = true;
	plan.settings.v6_len = TELEMETRY_V6_LEN;
	plan.max_flows = TELEMETRY_MAX_FLOWS;
	plan.max_prefixes = TELEMETRY_MAX_PREFIXES;
	RETURN_IF_ERROR(take_int(v4_len, "--v4-len", r.v4_len, 0, 32));
	RETURN_IF_ERROR(take_int(plan.settings.v6_len, "--v6-len", r.v6_len, 0, 128));
	RETURN_IF_ERROR(take_int(plan.max_flows, "--flows", r.max_flows, 64, 1 << 20));
	RETURN_IF_ERROR(take_int(plan.max_prefixes, "--prefixes", r.max_prefixes, 1, 1 << 16));
	RETURN_IF_ERROR(take_int(plan.settings.tx_one_in, "--tx", r.tx_one_in, 1, 1000000));
	plan.settings.v4_len = mapped_bits + v4_len;
	for (const std::string &text : r.prefixes) {
		ASSIGN_OR_RETURN(auto net, network(text));

		plan.networks.push_back(net);
	}
	if (plan.networks.size() > TELEMETRY_MAX_NETWORKS)
		return Error{"--prefix: too many", std::to_string(plan.networks.size()),
			     "up to " + std::to_string(TELEMETRY_MAX_NETWORKS)};
	plan.file = object_text(r.file, telemetry_name);
	// Variants that come later want it again.
	const std::string path = r.file.empty() ? r.file : std::filesystem::absolute(r.file).string();

	if (path.size() >= sizeof(plan.settings.object))
		return Error{"--object: a path too long", path,
			     "up to " + std::to_string(sizeof(plan.settings.object) - 1) + " characters"};
	report.usage = false;
	std::copy(path.begin(), path.end(), plan.settings.object);

	ASSIGN_OR_RETURN(plan.object, open_object(host_, r.file, telemetry_name));

	bool right = false;

	for (const BpfMap &m : plan.object->maps()) {
		right |= m.name == "flows" && m.value_bytes == sizeof(telemetry_flow) &&
			 m.key_bytes == sizeof(telemetry_flow_key);
		if (!m.internal)
			plan.maps.push_back(m);
	}
	if (!right)
		return Error{"not the telemetry, or that of another version than swiftctl's", plan.file};
	for (const BpfProgram &p : plan.object->programs()) {
		const bool wanted = p.name == module_program || (p.name == tx_program && plan.settings.tx_one_in > 0);

		if (wanted)
			plan.programs.push_back(p.name);
		else
			RETURN_IF_ERROR(plan.object->skip_program(p.name));
	}
	return plan;
}

Result<void> BpfTelemetry::build(Plan &plan, bool &module_attached, std::optional<Error> &no_nic)
{
	BpfObject &object = *plan.object;
	const std::string dir = staging_dir();
	const std::uint32_t one_in = plan.settings.tx_one_in;

	for (const auto &[map, n] : {std::pair("flows", plan.max_flows),
				     std::pair("prefixes", plan.max_prefixes + telemetry_spare_prefixes),
				     std::pair("tx_packets", one_in ? TELEMETRY_MAX_TX_PACKETS : 1U)})
		RETURN_IF_ERROR(object.set_max_entries(map, n));
	RETURN_IF_ERROR(object.set_constant("tx_threshold", bpf_bytes(one_in ? 0xffffffffU / one_in : 0)));
	RETURN_IF_ERROR(object.set_constant("cc_name", cc_constant(module_cc)));
	RETURN_IF_ERROR(object.load(false));
	for (const std::string &each : {std::string(bpf_pin_dir), dir})
		RETURN_IF_ERROR(host_.make_dir(each));
	for (const BpfMap &m : plan.maps)
		RETURN_IF_ERROR(object.pin_map(m.name, dir + "/" + m.name));
	for (const std::string &p : plan.programs)
		RETURN_IF_ERROR(object.pin_program(p, dir + "/prog_" + p));
	RETURN_IF_ERROR(host_.write(dir + "/settings", bpf_first_key(), bpf_bytes(plan.settings)));
	for (const bpf_swift_prefix &net : plan.networks)
		RETURN_IF_ERROR(host_.write(dir + "/networks", bpf_bytes(net), bpf_bytes(net.prefix_len)));
	RETURN_IF_ERROR(make_other(dir, module_cc));
	if (one_in) {
		RETURN_IF_ERROR(object.attach_tracing(tx_program));
		RETURN_IF_ERROR(object.pin_link(tx_program, dir + "/link_" + tx_program));
		if (auto ok = watch_releases(dir); !ok)
			no_nic = ok.error();
	}

	ASSIGN_OR_RETURN(module_attached, attach_module(dir));
	for (const std::string &name : variants())
		RETURN_IF_ERROR(prefixed("cannot watch " + name + ": ", watch_in(dir, name)));
	return host_.rename(dir, telemetry_dir());
}

BpfReport BpfTelemetry::load(const TelemetryRequest &request)
{
	BpfReport report;
	const bool dry = request.dry_run;
	const auto failed = [&](const Error &e) {
		report.notes.clear();
		return report.failed(e);
	};
	const auto lock = hold_changes(system_, dry);

	if (!lock)
		return failed(lock.error());

	const BpfAbilities can = host_.abilities();

	if (!can.btf)
		return failed(Error{"this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF"});
	if (auto ok = need_bpffs(host_, report, dry); !ok)
		return failed(ok.error());
	if (host_.exists(telemetry_dir())) {
		if (host_.exists(telemetry_dir() + "/" + telemetry_module_link) || !module_loaded(system_))
			return failed(Error{"the telemetry is loaded already: swiftctl bpf unload telemetry"});
		report.steps.push_back((dry ? "would attach " : "attached ") + std::string("the telemetry, which is "
				       "loaded already, to the module"));
		if (dry)
			return report;
		const auto attached = attach_module(telemetry_dir());

		if (!attached)
			return failed(attached.error());
		if (!*attached)
			return failed(Error{"the module that is loaded has no tracepoint swift_sample"});
		return report;
	}

	auto plan = this->plan(request, report);

	if (!plan)
		return failed(plan.error());

	bool module_attached = module_loaded(system_);
	std::optional<Error> no_nic;

	if (!dry) {
		if (auto ok = take_down(staging_dir()); !ok)
			return failed(ok.error());
		if (auto ok = build(*plan, module_attached, no_nic); !ok) {
			report.verifier_log = plan->object->verifier_log();
			(void)take_down(staging_dir());
			for (const std::string &name : variants())
				(void)host_.write(bpf_dir(name) + "/telemetry_on", bpf_first_key(),
						  bpf_bytes(std::uint32_t{0}));
			return failed(ok.error());
		}
	}
	report.steps.push_back((dry ? "would load " : "loaded ") + plan->file + ", pinned in " + telemetry_dir());
	if (module_attached)
		report.steps.push_back((dry ? "would attach " : "attached ") +
				       std::string("telemetry_module to the module's tracepoint tcp_swift:swift_sample"));
	if (plan->settings.tx_one_in)
		report.steps.push_back((dry ? "would attach " : "attached ") +
				       std::string("telemetry_tx to net_dev_start_xmit, for one packet in ") +
				       std::to_string(plan->settings.tx_one_in));
	if (plan->settings.tx_one_in && !no_nic)
		report.steps.push_back((dry ? "would attach " : "attached ") +
				       std::string("telemetry_tx_nic to tcp_wfree(), for the same packets"));
	if (no_nic)
		report.notes.push_back("the NIC's share of their way (tx_nic_ns) is not measured: " + no_nic->text());
	for (const std::string &name : variants())
		report.steps.push_back((dry ? "would watch " : "watches ") + name);
	if (module_attached)
		report.notes.emplace_back("the module cannot be unloaded while it is watched: swiftctl bpf unload "
					  "telemetry [--module-only]");
	else
		report.notes.emplace_back("the module is not loaded: flows of BPF variants alone are counted, until "
					  "`swiftctl bpf load telemetry` is said again with the module there");
	return report;
}

/* --- Unloading ----------------------------------------------------------------------------- */

Result<void> BpfTelemetry::take_down(const std::string &dir)
{
	Result<void> result;

	for (const std::string &pin : pins_of(dir, ""))
		if (auto ok = host_.remove_pin(dir + "/" + pin); !ok)
			result = ok;
	for (const std::string &each : {dir, std::string(bpf_pin_dir)})
		if (auto ok = host_.remove_dir(each); !ok)
			result = ok;
	return result;
}

BpfReport BpfTelemetry::unload(bool module_only, bool dry_run)
{
	BpfReport report;
	const auto failed = [&](const Error &e) { return report.failed(e); };
	const std::string link = telemetry_dir() + "/" + telemetry_module_link;
	const auto lock = hold_changes(system_, dry_run);

	if (!lock)
		return failed(lock.error());
	if (!host_.exists(telemetry_dir()) && !host_.exists(staging_dir()))
		return failed(Error{"not loaded", telemetry_name});
	if (module_only) {
		if (!host_.exists(link))
			return failed(Error{"the telemetry is not attached to the module"});
		report.steps.push_back((dry_run ? "would detach " : "detached ") + std::string("it from the module"));
		if (dry_run)
			return report;
		if (auto ok = host_.remove_pin(link); !ok)
			return failed(ok.error());
		return report;
	}
	report.steps.push_back((dry_run ? "would detach the telemetry and remove " :
					  "detached the telemetry, removed ") +
			       telemetry_dir());
	if (dry_run)
		return report;
	for (const std::string &name : variants())
		if (auto ok = host_.write(bpf_dir(name) + "/telemetry_on", bpf_first_key(),
					  bpf_bytes(std::uint32_t{0}));
		    !ok)
			return failed(ok.error());
	for (const std::string &dir : {telemetry_dir(), staging_dir()})
		if (auto ok = take_down(dir); !ok)
			return failed(ok.error());
	return report;
}

std::optional<TelemetryStatus> BpfTelemetry::status() const
{
	TelemetryStatus s;
	const std::string dir = telemetry_dir();

	if (!host_.exists(dir)) {
		if (!host_.exists(staging_dir()))
			return std::nullopt;
		s.leftover = true;
		return s;
	}
	s.module_attached = host_.exists(dir + "/" + telemetry_module_link);
	s.tx_nic_attached = host_.exists(dir + "/" + telemetry_tx_nic_link);
	for (const std::string &pin : pins_of(dir, "link_"))
		if (const auto dot = pin.rfind('~'); dot != std::string::npos)
			if (const std::string name = pin.substr(5, dot - 5);
			    std::find(s.watched.begin(), s.watched.end(), name) == s.watched.end())
				s.watched.push_back(name);
	for (const std::string &pin : pins_of(dir, "prog_"))
		if (auto p = host_.program(dir + "/" + pin)) {
			p->name = pin.substr(5);
			s.programs.push_back(*p);
			if (s.since_ns == 0 || p->loaded_ns < s.since_ns)
				s.since_ns = p->loaded_ns;
		}
	if (const auto map = host_.map(dir + "/flows"))
		s.max_flows = map->max_entries;
	if (const auto map = host_.map(dir + "/prefixes"))
		s.max_prefixes = map->max_entries - telemetry_spare_prefixes;
	if (const auto bytes = host_.read(dir + "/settings", bpf_first_key());
	    bytes && *bytes && (*bytes)->size() == sizeof(telemetry_settings)) {
		telemetry_settings settings{};

		std::memcpy(&settings, (*bytes)->data(), sizeof(settings));
		s.tx_one_in = settings.tx_one_in;
	}
	return s;
}

} // namespace swift
