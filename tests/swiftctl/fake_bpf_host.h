// SPDX-License-Identifier: MIT
// A made-up kernel for congestion controls in BPF: objects, maps, links that live as long as
// somebody holds them, pins, and faults at a chosen operation.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bpf_host.h"
#include "bpf_law.h"
#include "bpf_variant.h"
#include "fake_system.h"

namespace swift_test {

inline std::string error_of(const swift::BpfReport &r)
{
	return r.error ? r.error->text() : "";
}

// What is in an object file.
struct FakeBpfFile {
	std::string ops = "bpf_swift";
	std::string registers = "bpf_swift"; // the name inside
	std::vector<swift::BpfProgram> programs = {
		{"cong_control", swift::BpfProgramKind::congestion, "struct_ops/cong_control"},
		{"swift_echo", swift::BpfProgramKind::sock_ops, "sockops"},
		{"swift_rx", swift::BpfProgramKind::tracing, "tp_btf/tcp_probe"}};
	std::vector<swift::BpfMap> maps = {{"swift_params", 2, 4, 96, 1, false, false},
					   {"swift_profiles", 11, 20, 96, 3, false, false},
					   {"swift_flows", 24, 4, 60, 0, false, false},
					   {"bpf_swif.rodata", 2, 4, 8, 1, false, true}};
	std::set<std::string> functions = {"swift_decided_at"}; // of its programs
	bool refused_by_verifier = false;
	bool incomplete = false; // and so not registered
};

class FakeBpfHost : public swift::BpfHost {
public:
	struct Thing {
		swift::BpfMap map;
		std::map<swift::BpfBytes, swift::BpfBytes> content;
		std::string program; // name and file
		std::uint32_t id = 1; // of a program
		std::set<std::string> functions; // of a program
		swift::BpfOpsStatus ops;
		std::shared_ptr<Thing> holds; // of a link: a program, or a struct_ops
		std::string cgroup; // of a link
		bool is_link = false;
		bool attached = true; // of a link
	};
	using Ref = std::shared_ptr<Thing>;

	std::map<std::string, FakeBpfFile> objects = {{"bpf_swift", {}}}; // that are built in
	std::map<std::string, FakeBpfFile> files;
	swift::BpfAbilities can = {true, true, true, true};
	std::map<std::string, Ref> pinned;
	std::set<std::string> dirs;
	std::vector<Ref> plain; // registered
	bool mountable = true; // bpffs
	bool pins_hidden = false; // as another mount namespace's are
	std::set<std::string> names = {"cubic", "reno"}; // of the kernel itself, and of modules
	std::set<std::string> tracepoints; // of modules
	mutable std::vector<std::weak_ptr<Thing>> links;
	int fail_at = 0; // the number of the operation that fails; 0: none
	bool dead_after = false; // and so does every later one: the process was killed
	int operations = 0;
	int no_memory = 0; // so many writes to the map of prefixes find none
	std::uint32_t next_id = 1;

	std::set<std::string> available() const
	{
		std::set<std::string> all = names;

		for (const Ref &ops : plain)
			all.insert(ops->ops.name);
		for (const auto &weak : links)
			if (const Ref link = weak.lock(); link && link->attached && link->cgroup.empty() &&
							  link->holds->map.ops)
				all.insert(link->holds->ops.name);
		return all;
	}
	// All that can be told from outside, in one text.
	std::string world() const
	{
		std::string s;

		for (const std::string &name : available())
			s += "cc " + name + "\n";
		for (const std::string &dir : dirs)
			s += "dir " + dir + "\n";
		for (const auto &[path, thing] : pinned) {
			s += "pin " + path + " " + thing->program + thing->map.name;
			for (const auto &[key, value] : thing->content)
				for (const swift::BpfBytes &bytes : {key, value})
					for (const std::byte b : bytes)
						s += static_cast<char>(std::to_integer<int>(b));
			s += "\n";
		}
		for (const auto &weak : links)
			if (const Ref link = weak.lock(); link && link->attached)
				s += "link " + link->holds->program + " " + link->holds->ops.name + " " +
				     link->cgroup + "\n";
		return s;
	}

	swift::Result<void> operation(const std::string &what)
	{
		operations++;
		if (fail_at && (operations == fail_at || (dead_after && operations > fail_at)))
			return swift::Error{"injected at " + what};
		return {};
	}

	swift::BpfAbilities abilities() const override { return can; }
	swift::Result<std::unique_ptr<swift::BpfObject>> open(const std::string &file) override;
	swift::Result<std::unique_ptr<swift::BpfObject>> open_built_in(const std::string &name) override;
	std::vector<std::string> built_in() const override
	{
		std::vector<std::string> all;

		for (const auto &[name, object] : objects)
			all.push_back(name);
		return all;
	}
	swift::Result<void> mount_bpffs() override
	{
		if (!mountable)
			return swift::errno_error("cannot mount bpffs at /sys/fs/bpf", EPERM);
		can.bpffs = true;
		return {};
	}

	swift::Result<std::vector<std::string>> pins(const std::string &dir) const override
	{
		std::set<std::string> found;

		if (pins_hidden)
			return std::vector<std::string>();
		for (const std::string &each : dirs)
			if (each.starts_with(dir + "/"))
				found.insert(each.substr(dir.size() + 1));
		for (const auto &[path, thing] : pinned)
			if (path.starts_with(dir + "/"))
				found.insert(swift::split(path.substr(dir.size() + 1), '/')[0]);
		return std::vector<std::string>(found.begin(), found.end());
	}
	bool exists(const std::string &path) const override
	{
		return !pins_hidden && (pinned.contains(path) || dirs.contains(path));
	}
	swift::Result<void> make_dir(const std::string &dir) override
	{
		if (auto ok = operation("make_dir"); !ok)
			return ok;
		if (!has_parent(dir))
			return swift::errno_error("cannot make " + dir, ENOENT);
		dirs.insert(dir);
		return {};
	}
	swift::Result<void> remove_pin(const std::string &pin) override
	{
		if (auto ok = operation("remove_pin"); !ok)
			return ok;
		pinned.erase(pin);
		return {};
	}
	swift::Result<void> remove_dir(const std::string &dir) override
	{
		if (auto ok = operation("remove_dir"); !ok)
			return ok;
		if (pins(dir)->empty())
			dirs.erase(dir);
		return {};
	}
	swift::Result<void> rename(const std::string &from, const std::string &to) override
	{
		if (auto ok = operation("rename"); !ok)
			return ok;
		if (!there(from) || there(to))
			return swift::errno_error("cannot rename " + from + " to " + to, there(from) ? EEXIST : ENOENT);
		move(from, to);
		return {};
	}
	swift::Result<void> exchange(const std::string &a, const std::string &b) override
	{
		if (auto ok = operation("exchange"); !ok)
			return ok;
		if (!there(a) || !there(b))
			return swift::errno_error("cannot rename " + a + " to " + b, ENOENT);
		move(a, "/tmp");
		move(b, a);
		move("/tmp", b);
		return {};
	}
	swift::Result<void> pin_again(const std::string &pin, const std::string &to) override
	{
		return pinned.contains(pin) ? pin_thing(pinned.at(pin), to) : not_there(pin);
	}

	swift::Result<swift::BpfMap> map(const std::string &pin) const override
	{
		return pinned.contains(pin) ? swift::Result(pinned.at(pin)->map) : not_there(pin);
	}
	swift::Result<void> create_hash(const swift::BpfMap &map, const std::string &pin) override
	{
		auto thing = std::make_shared<Thing>();

		thing->map = map;
		thing->map.type = hash;
		return pin_thing(thing, pin);
	}
	swift::Result<std::vector<swift::BpfBytes>> keys(const std::string &pin) const override
	{
		std::vector<swift::BpfBytes> out;

		if (!pinned.contains(pin))
			return not_there(pin);
		for (const auto &[key, value] : pinned.at(pin)->content)
			out.push_back(key);
		return out;
	}
	swift::Result<std::optional<swift::BpfBytes>> read(const std::string &pin,
							   const swift::BpfBytes &key) const override
	{
		if (!pinned.contains(pin))
			return not_there(pin);
		const auto &content = pinned.at(pin)->content;
		const auto at = content.find(key);

		return at == content.end() ? std::nullopt : std::optional(at->second);
	}
	swift::Result<void> write(const std::string &pin, const swift::BpfBytes &key,
				  const swift::BpfBytes &value) override
	{
		if (auto ok = operation("write"); !ok)
			return ok;
		if (pin.ends_with("/prefixes") && no_memory > 0 && no_memory--)
			return swift::errno_error("cannot write " + pin, ENOMEM);
		if (!pinned.contains(pin))
			return not_there(pin);
		if (pinned.at(pin)->map.type == hash && value.size() != pinned.at(pin)->map.value_bytes)
			return swift::Error{"cannot write " + pin + ": its values have another size"};
		return write_thing(*pinned.at(pin), key, value);
	}
	swift::Result<void> visit(const std::string &pin, const ShowEntry &show) const override
	{
		if (!pinned.contains(pin))
			return not_there(pin);
		for (const auto &[key, value] : pinned.at(pin)->content)
			show(key, value);
		return {};
	}
	swift::Result<void> attach_raw_tracepoint(const std::string &pin, const std::string &tracepoint,
						  const std::string &link_pin) override
	{
		if (auto ok = operation("attach_raw_tracepoint"); !ok)
			return ok;
		if (!pinned.contains(pin))
			return not_there(pin);
		if (!tracepoints.contains(tracepoint))
			return swift::errno_error("cannot attach to tracepoint " + tracepoint, ENOENT);
		return pin_thing(new_link(pinned.at(pin), tracepoint), link_pin);
	}
	swift::Result<void> erase(const std::string &pin, const swift::BpfBytes &key) override
	{
		if (auto ok = operation("erase"); !ok)
			return ok;
		if (!pinned.contains(pin))
			return not_there(pin);
		pinned.at(pin)->content.erase(key);
		return {};
	}
	static swift::Result<void> write_thing(Thing &thing, const swift::BpfBytes &key,
					       const swift::BpfBytes &value)
	{
		if (!thing.content.contains(key) && thing.content.size() >= thing.map.max_entries)
			return swift::errno_error("cannot write " + thing.map.name, thing.map.type == hash ? E2BIG : ENOSPC);
		thing.content[key] = value;
		return {};
	}

	swift::Result<swift::BpfProgramStatus> program(const std::string &pin) const override
	{
		if (!pinned.contains(pin))
			return not_there(pin);
		return swift::BpfProgramStatus{pinned.at(pin)->program, pinned.at(pin)->id, 20, 10, 1000, 0, 0, 0};
	}
	swift::Result<std::string> cgroup_of(const std::string &link_pin) const override
	{
		if (!pinned.contains(link_pin))
			return not_there(link_pin);
		if (pinned.at(link_pin)->cgroup.empty())
			return swift::Error{"not a link to a cgroup"};
		return pinned.at(link_pin)->cgroup;
	}
	void detach(const std::string &link_pin) override
	{
		if (pinned.contains(link_pin) && operation("detach"))
			pinned.at(link_pin)->attached = false;
	}
	swift::Result<void> replace_program(const std::string &link_pin, const std::string &pin) override
	{
		if (auto ok = operation("replace_program"); !ok)
			return ok;
		if (!pinned.contains(link_pin) || !pinned.contains(pin))
			return not_there(link_pin);
		pinned.at(link_pin)->holds = pinned.at(pin);
		return {};
	}
	swift::Result<void> replace_ops(const std::string &link_pin, const std::string &pin) override
	{
		if (auto ok = operation("replace_ops"); !ok)
			return ok;
		if (!pinned.contains(link_pin) || !pinned.contains(pin))
			return not_there(link_pin);
		if (pinned.at(pin)->ops.state != swift::BpfOpsStatus::State::ready)
			return swift::errno_error("cannot replace", EINVAL);
		pinned.at(link_pin)->holds = pinned.at(pin);
		return {};
	}
	swift::Result<swift::BpfOpsStatus> ops(const std::string &pin) const override
	{
		if (!pinned.contains(pin))
			return not_there(pin);
		return pinned.at(pin)->map.ops ? swift::Result(pinned.at(pin)->ops) :
						 swift::Error{"not a struct_ops map", pinned.at(pin)->map.name};
	}
	swift::Result<std::vector<swift::BpfOpsStatus>> all_ops() const override
	{
		std::vector<swift::BpfOpsStatus> out;

		for (const Ref &thing : plain)
			out.push_back(thing->ops);
		for (const auto &weak : links)
			if (const Ref link = weak.lock(); link && link->holds->map.ops)
				out.push_back(link->holds->ops);
		return out;
	}
	swift::Result<swift::BpfOpsParts> parts_of_ops(std::uint32_t) const override
	{
		return swift::BpfOpsParts{{{"cong_control", 7, 20, 10, 1000, 0, 0, 0}}, {"swift_params", "swift_flows"}};
	}
	swift::Result<void> unregister_ops(std::uint32_t id) override
	{
		if (auto ok = operation("unregister"); !ok)
			return ok;
		for (const Ref &thing : plain)
			if (thing->ops.id == id)
				thing->ops.state = swift::BpfOpsStatus::State::leaving;
		std::erase_if(plain, [&](const Ref &thing) { return thing->ops.id == id; });
		return {};
	}
	swift::Result<void> register_copy(const std::string &pin, const std::string &to) override
	{
		if (!pinned.contains(pin))
			return not_there(pin);
		auto copy = std::make_shared<Thing>(*pinned.at(pin));

		copy->ops.id = next_id++;
		copy->ops.state = swift::BpfOpsStatus::State::unused;
		if (auto ok = pin_thing(copy, to); !ok)
			return ok;
		return register_plain(copy);
	}

	swift::Result<void> register_plain(const Ref &ops)
	{
		if (auto ok = operation("register"); !ok)
			return ok;
		if (available().contains(ops->ops.name))
			return swift::errno_error("cannot register", EEXIST);
		ops->ops.state = swift::BpfOpsStatus::State::in_use;
		plain.push_back(ops);
		return {};
	}
	swift::Result<void> pin_thing(const Ref &thing, const std::string &pin)
	{
		if (auto ok = operation("pin " + pin); !ok)
			return ok;
		if (pinned.contains(pin) || !has_parent(pin))
			return swift::errno_error("cannot pin " + pin, pinned.contains(pin) ? EEXIST : ENOENT);
		pinned[pin] = thing;
		return {};
	}
	Ref new_link(const Ref &holds, const std::string &cgroup)
	{
		auto link = std::make_shared<Thing>();

		link->is_link = true;
		link->holds = holds;
		link->cgroup = cgroup;
		links.push_back(link);
		return link;
	}

private:
	static constexpr std::uint32_t hash = 1; // BPF_MAP_TYPE_HASH

	static swift::Error not_there(const std::string &pin) { return swift::errno_error("cannot open " + pin, ENOENT); }
	bool there(const std::string &path) const { return pinned.contains(path) || dirs.contains(path); }
	bool has_parent(const std::string &path) const
	{
		const std::string parent = path.substr(0, path.rfind('/'));

		return parent == "/sys/fs/bpf" || dirs.contains(parent);
	}
	void move(const std::string &from, const std::string &to)
	{
		std::map<std::string, Ref> moved;

		for (const auto &[path, thing] : pinned)
			moved[path == from || path.starts_with(from + "/") ? to + path.substr(from.size()) : path] =
				thing;
		pinned = std::move(moved);
		std::set<std::string> now;

		for (const std::string &dir : dirs)
			now.insert(dir == from || dir.starts_with(from + "/") ? to + dir.substr(from.size()) : dir);
		dirs = std::move(now);
	}
};

class FakeBpfObject : public swift::BpfObject {
public:
	FakeBpfObject(FakeBpfHost &host, const FakeBpfFile &file, std::string path)
		: host_(host), file_(file), path_(std::move(path))
	{
		for (const swift::BpfMap &m : file_.maps) {
			auto &thing = things_[m.name] = std::make_shared<FakeBpfHost::Thing>();

			thing->map = m;
		}
		for (const swift::BpfProgram &p : file_.programs) {
			auto &thing = things_[p.name] = std::make_shared<FakeBpfHost::Thing>();

			thing->program = p.name + " of " + path_;
			thing->functions = file_.functions;
		}
		if (file_.ops.empty())
			return;
		ops_ = things_[file_.ops] = std::make_shared<FakeBpfHost::Thing>();
		ops_->map.name = file_.ops;
		ops_->map.ops = true;
		ops_->ops = {host.next_id++, file_.registers, swift::BpfOpsStatus::State::unused, 0, false};
	}

	std::vector<swift::BpfProgram> programs() const override { return file_.programs; }
	std::vector<swift::BpfMap> maps() const override
	{
		auto all = file_.maps;

		if (ops_)
			all.push_back(ops_->map);
		return all;
	}
	swift::Result<void> skip_program(const std::string &program) override
	{
		things_.erase(program);
		return {};
	}
	swift::Result<void> reuse_map(const std::string &map, const std::string &pin) override
	{
		things_[map] = host_.pinned.at(pin);
		return {};
	}
	swift::Result<void> set_max_entries(const std::string &map, std::uint32_t n) override
	{
		things_.at(map)->map.max_entries = n;
		return {};
	}
	swift::Result<void> set_constant(const std::string &name, const swift::BpfBytes &value) override
	{
		constants[name] = value;
		return {};
	}
	swift::Result<void> set_target(const std::string &program, const std::string &pin,
				       const std::string &function) override
	{
		if (!host_.pinned.contains(pin) || !host_.pinned.at(pin)->functions.contains(function))
			return swift::errno_error("the program at " + pin + " has no function " + function, ESRCH);
		targets_[program] = host_.pinned.at(pin)->program;
		return {};
	}
	swift::Result<void> load(bool ops_by_link) override
	{
		if (file_.refused_by_verifier)
			return swift::Error{"the verifier refused program cong_control"};
		if (ops_)
			ops_->ops.by_link = ops_by_link;
		for (const swift::BpfProgram &p : file_.programs)
			if (things_.contains(p.name))
				things_[p.name]->id = host_.next_id++;
		return host_.operation("load");
	}
	std::map<std::string, swift::BpfBytes> constants;
	std::string verifier_log() const override { return file_.refused_by_verifier ? "0: r0 = 0\n" : ""; }
	swift::Result<void> write_map(const std::string &map, const swift::BpfBytes &key,
				      const swift::BpfBytes &value) override
	{
		if (auto ok = host_.operation("write_map"); !ok)
			return ok;
		return FakeBpfHost::write_thing(*things_.at(map), key, value);
	}
	swift::Result<void> pin_map(const std::string &map, const std::string &pin) override
	{
		return host_.pin_thing(things_.at(map), pin);
	}
	swift::Result<void> pin_program(const std::string &program, const std::string &pin) override
	{
		return host_.pin_thing(things_.at(program), pin);
	}
	swift::Result<void> attach_tracing(const std::string &program) override
	{
		return attach(program, "");
	}
	swift::Result<void> attach_cgroup(const std::string &program, const std::string &cgroup) override
	{
		return attach(program, cgroup);
	}
	swift::Result<void> pin_link(const std::string &program, const std::string &pin) override
	{
		return host_.pin_thing(links_.at(program), pin);
	}
	swift::Result<void> register_ops() override
	{
		if (file_.incomplete)
			return swift::errno_error("the kernel does not register it", EINVAL);
		if (!ops_->ops.by_link)
			return host_.register_plain(ops_);
		if (auto ok = host_.operation("register by link"); !ok)
			return ok;
		if (host_.available().contains(ops_->ops.name))
			return swift::errno_error("cannot register", EEXIST);
		ops_->ops.state = swift::BpfOpsStatus::State::ready;
		ops_link_ = host_.new_link(ops_, "");
		return {};
	}
	swift::Result<void> pin_ops_link(const std::string &pin) override
	{
		return host_.pin_thing(ops_link_, pin);
	}
	swift::Result<void> prepare_ops() override
	{
		if (file_.incomplete)
			return swift::errno_error("the kernel does not take it", EINVAL);
		ops_->ops.state = swift::BpfOpsStatus::State::ready;
		return host_.operation("prepare");
	}

private:
	swift::Result<void> attach(const std::string &program, const std::string &cgroup)
	{
		if (auto ok = host_.operation("attach"); !ok)
			return ok;
		links_[program] = host_.new_link(things_.at(program), targets_.contains(program) ?
								      targets_.at(program) : cgroup);
		return {};
	}

	FakeBpfHost &host_;
	FakeBpfFile file_;
	std::string path_;
	std::map<std::string, FakeBpfHost::Ref> things_;
	std::map<std::string, FakeBpfHost::Ref> links_;
	std::map<std::string, std::string> targets_; // by program
	FakeBpfHost::Ref ops_;
	FakeBpfHost::Ref ops_link_;
};

inline swift::Result<std::unique_ptr<swift::BpfObject>> FakeBpfHost::open(const std::string &file)
{
	if (!files.contains(file))
		return swift::errno_error("cannot open the BPF object " + file, ENOENT);
	return std::unique_ptr<swift::BpfObject>(std::make_unique<FakeBpfObject>(*this, files.at(file), file));
}

inline swift::Result<std::unique_ptr<swift::BpfObject>> FakeBpfHost::open_built_in(const std::string &name)
{
	if (!objects.contains(name))
		return swift::Error{"no BPF object of this name is built in", name, {}, ENOENT};
	return std::unique_ptr<swift::BpfObject>(
		std::make_unique<FakeBpfObject>(*this, objects.at(name), "the built-in " + name));
}

// A host whose list of congestion controls is that kernel's.
class FakeBpfSystem : public FakeSystem {
public:
	explicit FakeBpfSystem(const FakeBpfHost &host) : host_(host)
	{
		files["/proc/self/mounts"] = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
	}
	swift::Result<std::string> read_file(const std::string &path) const override
	{
		if (path != "/proc/sys/net/ipv4/tcp_available_congestion_control")
			return FakeSystem::read_file(path);
		std::string all;

		for (const std::string &name : host_.available())
			all += name + " ";
		return all + "\n";
	}

private:
	const FakeBpfHost &host_;
};

} // namespace swift_test
