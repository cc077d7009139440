// SPDX-License-Identifier: MIT
// BpfHost on the real kernel, through libbpf: system calls, and nothing that decides.
#include "bpf_host.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "built_in.h"
#include "clock_ns.h"
#include "fd.h"
#include "interface.h"
#include "text.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

// Of the kernel's ABI, and newer than Debian 12's headers.
constexpr std::uint32_t flag_ops_link = 1U << 13; // BPF_F_LINK, 6.4
constexpr auto attach_ops = static_cast<bpf_attach_type>(44); // BPF_STRUCT_OPS, 6.4
constexpr int errno_not_supported = 524; // ENOTSUPP, which strerror does not know
constexpr int handle_kernfs = 0xfe; // FILEID_KERNFS

constexpr std::size_t verifier_log_bytes = 16U << 20; // untouched until written to
constexpr const char *bpffs = "/sys/fs/bpf";
constexpr const char *init_root = "/proc/1/root"; // as the mount namespace of pid 1 has it
constexpr const char *storage_name = "swift_flows"; // of bpf/maps.h
constexpr const char *ops_value_type = "bpf_struct_ops_tcp_congestion_ops";

Error bpf_error(const std::string &what, int code)
{
	if (code == errno_not_supported)
		return Error{what + ": this kernel does not support it", {}, {}, code};
	if (code == EPERM)
		return Error{what + ": not permitted; it needs root (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN)",
			     {}, {}, code};
	return errno_error(what, code);
}

// What libbpf says while an object lives. Its callback has no argument for this.
class LibbpfMessages : NonCopyable {
public:
	LibbpfMessages()
	{
		sink() = &last_;
		libbpf_set_print(print);
	}
	~LibbpfMessages() { sink() = nullptr; }

	// The first warning: those that follow are about what follows from it.
	[[nodiscard]] const std::string &first() const { return last_; }

private:
	static std::string *&sink()
	{
		static thread_local std::string *to = nullptr;

		return to;
	}
	static int print(libbpf_print_level level, const char *format, va_list arguments)
	{
		if (level != LIBBPF_WARN || !sink() || !sink()->empty())
			return 0;

		std::array<char, 512> line{};

		// libbpf's format and its arguments, as its own printer would take them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		std::vsnprintf(line.data(), line.size(), format, arguments);
#pragma GCC diagnostic pop
		std::string_view s = trim(line.data());

		if (s.starts_with("libbpf: "))
			s.remove_prefix(8);
		*sink() = s.substr(0, s.find('\n'));
		return 0;
	}

	std::string last_;
};

// The line in which the verifier says why.
std::string verdict(const std::string &log)
{
	std::string last;

	for (const std::string &line : split(log, '\n')) {
		const std::string_view s = trim(line);

		if (!s.empty() && !s.starts_with("processed ") && !s.starts_with("verification time") &&
		    !s.starts_with("stack depth") && !s.starts_with("-- "))
			last = s;
	}
	return last;
}

// Of a call of libbpf's.
Result<void> done(int code, const std::string &what)
{
	return code < 0 ? Result<void>(bpf_error(what, -code)) : Result<void>();
}

template <typename Info> Result<Info> info_of(int fd, const std::string &what)
{
	Info info{};
	std::uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return bpf_error("cannot ask about " + what, errno);
	return info;
}

bool is_bpffs(const std::string &dir)
{
	struct statfs fs {};

	return statfs(dir.c_str(), &fs) == 0 && static_cast<unsigned long>(fs.f_type) == BPF_FS_MAGIC;
}

// Where a path below bpffs is for us. In a mount namespace without one (`ip netns exec` makes such)
// it is that of pid 1, where it lasts.
std::string seen_at(const std::string &path)
{
	if (path.starts_with(bpffs) && !is_bpffs(bpffs) && is_bpffs(std::string(init_root) + bpffs))
		return init_root + path;
	return path;
}

std::string mount_namespace_of(const char *process)
{
	std::error_code code;

	return std::filesystem::read_symlink(std::string("/proc/") + process + "/ns/mnt", code).string();
}

int mount_bpffs_here()
{
	return mount("bpf", bpffs, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0 ? errno : 0;
}

// In the mount namespace that @ns is of: a process cannot come back from there, so a child goes.
int mount_bpffs_in(const Fd &ns)
{
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		const bool there = unshare(CLONE_FS) == 0 && setns(ns.get(), CLONE_NEWNS) == 0;

		_exit(there ? mount_bpffs_here() : errno);
	}
	if (child < 0)
		return errno;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

Result<Fd> open_pin(const std::string &pin)
{
	Fd fd(bpf_obj_get(seen_at(pin).c_str()));

	if (!fd)
		return bpf_error("cannot open " + pin, errno);
	return fd;
}

// An object of the kernel's, by its pin, and what the kernel says of it.
template <typename Info> struct Pinned {
	Fd fd;
	Info info{};
};
template <typename Info> Result<Pinned<Info>> open_pinned(const std::string &pin)
{
	auto fd = open_pin(pin);
	ASSIGN_OR_RETURN(auto info, fd ? info_of<Info>(fd->get(), pin) : Result<Info>(fd.error()));

	return Pinned<Info>{std::move(*fd), info};
}

Result<void> pin_fd(int fd, const std::string &pin)
{
	if (bpf_obj_pin(fd, seen_at(pin).c_str()) < 0)
		return bpf_error("cannot pin " + pin, errno);
	return {};
}

bool per_cpu(const bpf_map_info &info)
{
	return info.type == BPF_MAP_TYPE_PERCPU_HASH || info.type == BPF_MAP_TYPE_PERCPU_ARRAY ||
	       info.type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}

// What the kernel copies for one key.
std::size_t copied_bytes(const bpf_map_info &info)
{
	if (!per_cpu(info))
		return info.value_size;
	return (info.value_size + std::size_t{7}) / 8 * 8 * static_cast<std::size_t>(libbpf_num_possible_cpus());
}

BpfMap describe(const bpf_map_info &info)
{
	BpfMap m;

	m.name = info.name;
	m.type = info.type;
	m.key_bytes = info.key_size;
	m.value_bytes = info.value_size;
	m.max_entries = info.max_entries;
	m.ops = info.type == BPF_MAP_TYPE_STRUCT_OPS;
	return m;
}

BpfProgramStatus describe(const bpf_prog_info &info)
{
	BpfProgramStatus s;

	s.name = info.name;
	s.id = info.id;
	s.verified_insns = info.verified_insns;
	s.xlated_insns = info.xlated_prog_len / static_cast<std::uint32_t>(sizeof(bpf_insn));
	s.loaded_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) +
		      static_cast<std::int64_t>(info.load_time);
	s.misses = info.recursion_misses;
	s.runs = info.run_cnt;
	s.run_ns = info.run_time_ns;
	return s;
}

std::vector<std::uint32_t> maps_of_program(const Fd &program)
{
	std::vector<std::uint32_t> ids(64);
	bpf_prog_info info{};
	std::uint32_t size = sizeof(info);

	info.nr_map_ids = static_cast<std::uint32_t>(ids.size());
	info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
	if (bpf_obj_get_info_by_fd(program.get(), &info, &size) < 0)
		return {};
	ids.resize(std::min<std::size_t>(ids.size(), info.nr_map_ids));
	return ids;
}

// Calls @visit with each map that the kernel has, and its description; false: not allowed.
template <typename Visit> bool visit_maps(const Visit &visit)
{
	std::uint32_t id = 0;

	while (bpf_map_get_next_id(id, &id) == 0) {
		Fd fd(bpf_map_get_fd_by_id(id));
		const auto info = fd ? info_of<bpf_map_info>(fd.get(), "a map") : Result<bpf_map_info>(Error{});

		if (info) // else it has gone meanwhile
			visit(std::move(fd), *info);
	}
	return errno == ENOENT;
}

// Where things are in the value of a struct_ops map of a congestion control, in this kernel.
struct OpsLayout {
	std::size_t name = 0; // offset
	std::vector<std::size_t> functions; // offsets
	std::uint8_t cong_control_args = 0;
};

class KernelTypes {
public:
	KernelTypes() : btf_(btf__load_vmlinux_btf(), btf__free)
	{
		if (libbpf_get_error(btf_.get()) != 0)
			btf_.reset();
	}

	[[nodiscard]] bool known() const { return btf_ != nullptr; }
	[[nodiscard]] bool has_struct(const char *name) const
	{
		return known() && btf__find_by_name_kind(btf_.get(), name, BTF_KIND_STRUCT) > 0;
	}
	[[nodiscard]] std::optional<OpsLayout> ops_layout() const
	{
		const btf_type *value = find(ops_value_type);
		const btf_type *ops = find("tcp_congestion_ops");

		if (!value || !ops)
			return std::nullopt;

		OpsLayout out;
		std::size_t data = 0;

		for (const btf_member &m : members(value))
			if (name_of(m) == "data")
				data = m.offset / 8;
		for (const btf_member &m : members(ops)) {
			const btf_type *t = btf__type_by_id(btf_.get(), m.type);

			if (name_of(m) == "name")
				out.name = data + m.offset / 8;
			if (!btf_is_ptr(t))
				continue;
			const btf_type *function = btf__type_by_id(btf_.get(), t->type);

			if (!btf_is_func_proto(function))
				continue;
			out.functions.push_back(data + m.offset / 8);
			if (name_of(m) == "cong_control")
				out.cong_control_args = static_cast<std::uint8_t>(btf_vlen(function));
		}
		return out;
	}

private:
	[[nodiscard]] const btf_type *find(const char *name) const
	{
		const int id = known() ? btf__find_by_name_kind(btf_.get(), name, BTF_KIND_STRUCT) : -1;

		return id > 0 ? btf__type_by_id(btf_.get(), static_cast<std::uint32_t>(id)) : nullptr;
	}
	static std::span<const btf_member> members(const btf_type *t)
	{
		return {btf_members(t), btf_vlen(t)};
	}
	[[nodiscard]] std::string_view name_of(const btf_member &m) const
	{
		return btf__name_by_offset(btf_.get(), m.name_off);
	}

	std::unique_ptr<btf, void (*)(btf *)> btf_;
};

// Reads a struct_ops map's value: two u32, references and state, then the ops themselves.
struct OpsValue {
	bpf_map_info info{};
	BpfBytes bytes;

	static Result<OpsValue> read(int fd)
	{
		ASSIGN_OR_RETURN(auto info, info_of<bpf_map_info>(fd, "a struct_ops map"));

		if (info.type != BPF_MAP_TYPE_STRUCT_OPS || info.value_size < 2 * sizeof(std::uint32_t))
			return Error{"not a struct_ops map", info.name};

		OpsValue v{info, BpfBytes(info.value_size)};
		const std::uint32_t zero = 0;

		if (bpf_map_lookup_elem(fd, &zero, v.bytes.data()) < 0)
			return bpf_error("cannot read struct_ops " + std::string(info.name), errno);
		return v;
	}
	[[nodiscard]] std::uint32_t word(std::size_t at) const
	{
		std::uint32_t w = 0;

		std::memcpy(&w, bytes.data() + at, sizeof(w));
		return w;
	}
	// Of the function at @at the kernel shows the id of its program; 0: it has none.
	[[nodiscard]] std::uint32_t program_id(std::size_t at) const
	{
		unsigned long slot = 0;

		std::memcpy(&slot, bytes.data() + at, sizeof(slot));
		return static_cast<std::uint32_t>(slot);
	}
};

BpfOpsStatus describe(const OpsValue &v, const std::optional<OpsLayout> &layout)
{
	static constexpr std::array states = {BpfOpsStatus::State::unused, BpfOpsStatus::State::in_use,
					      BpfOpsStatus::State::leaving, BpfOpsStatus::State::ready};
	BpfOpsStatus s;
	const std::uint32_t state = v.word(sizeof(std::uint32_t));

	s.id = v.info.id;
	s.references = v.word(0);
	s.state = state < states.size() ? states[state] : BpfOpsStatus::State::unused;
	s.by_link = (v.info.map_flags & flag_ops_link) != 0;
	if (layout && layout->name + 16 <= v.bytes.size()) {
		const char *name = reinterpret_cast<const char *>(v.bytes.data()) + layout->name;

		s.name.assign(name, strnlen(name, 16));
	}
	if (s.name.empty()) // it has not been given its content yet
		s.name = v.info.name;
	return s;
}

BpfProgramKind kind_of(const bpf_program *p)
{
	switch (bpf_program__type(p)) {
	case BPF_PROG_TYPE_STRUCT_OPS:
		return BpfProgramKind::congestion;
	case BPF_PROG_TYPE_SOCK_OPS:
		return BpfProgramKind::sock_ops;
	case BPF_PROG_TYPE_CGROUP_SKB:
		return BpfProgramKind::cgroup_skb;
	case BPF_PROG_TYPE_TRACING:
		return BpfProgramKind::tracing;
	case BPF_PROG_TYPE_RAW_TRACEPOINT:
		return BpfProgramKind::raw_tracepoint;
	default:
		return BpfProgramKind::other;
	}
}

class RealObject final : public BpfObject {
public:
	// @cong_control_args: of this kernel's cong_control, 2 or 4 (6.10); 0: not known.
	static Result<std::unique_ptr<BpfObject>> open(const std::string &file, std::uint8_t cong_control_args)
	{
		if (access(file.c_str(), R_OK) < 0)
			return errno_error("cannot open the BPF object " + file, errno);
		return open(file, cong_control_args,
			    [&] { return bpf_object__open_file(file.c_str(), nullptr); });
	}
	static Result<std::unique_ptr<BpfObject>> open(const BuiltInObject &built_in,
						       std::uint8_t cong_control_args)
	{
		const std::string name(built_in.name);
		LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name.c_str());

		return open("the built-in " + name, cong_control_args, [&] {
			return bpf_object__open_mem(built_in.bytes.data(), built_in.bytes.size(), &options);
		});
	}

	std::vector<BpfProgram> programs() const override
	{
		std::vector<BpfProgram> out;
		bpf_program *p = nullptr;

		bpf_object__for_each_program(p, object_.get())
			out.push_back({bpf_program__name(p), kind_of(p), bpf_program__section_name(p)});
		return out;
	}

	std::vector<BpfMap> maps() const override
	{
		std::vector<BpfMap> out;
		bpf_map *m = nullptr;

		bpf_object__for_each_map(m, object_.get()) {
			BpfMap d;

			d.name = bpf_map__name(m);
			d.type = bpf_map__type(m);
			d.key_bytes = bpf_map__key_size(m);
			d.value_bytes = bpf_map__value_size(m);
			d.max_entries = bpf_map__max_entries(m);
			d.ops = d.type == BPF_MAP_TYPE_STRUCT_OPS;
			d.internal = bpf_map__is_internal(m);
			out.push_back(std::move(d));
		}
		return out;
	}

	Result<void> skip_program(const std::string &program) override
	{
		return done(bpf_program__set_autoload(find_program(program), false),
			    "cannot leave out program " + program);
	}

	Result<void> reuse_map(const std::string &map, const std::string &pin) override
	{
		return open_pin(pin).and_then([&](Fd &fd) {
			return done(bpf_map__reuse_fd(find_map(map), fd.get()), "cannot reuse " + pin);
		});
	}

	Result<void> set_max_entries(const std::string &map, std::uint32_t n) override
	{
		return done(bpf_map__set_max_entries(find_map(map), n), "cannot set the size of map " + map);
	}
	Result<void> set_constant(const std::string &name, const BpfBytes &value) override
	{
		const btf *types = bpf_object__btf(object_.get());
		const int id = types ? btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC) : -1;
		bpf_map *rodata = nullptr;
		bpf_map *m = nullptr;

		bpf_object__for_each_map(m, object_.get())
			if (bpf_map__is_internal(m) && std::string_view(bpf_map__name(m)).ends_with(".rodata"))
				rodata = m;
		if (id <= 0 || !rodata)
			return {};

		std::size_t size = 0;
		const auto *content = static_cast<const std::byte *>(bpf_map__initial_value(rodata, &size));
		BpfBytes data(content, content + size);

		const btf_type *section = btf__type_by_id(types, static_cast<std::uint32_t>(id));
		const std::span<const btf_var_secinfo> all(btf_var_secinfos(section), btf_vlen(section));

		for (const btf_var_secinfo &v : all) {
			const btf_type *var = btf__type_by_id(types, v.type);

			if (name != btf__name_by_offset(types, var->name_off))
				continue;
			if (v.size != value.size() || v.offset + v.size > data.size())
				return Error{"constant " + name + " has another size in " + file_};
			std::copy(value.begin(), value.end(), data.begin() + v.offset);
		}
		return done(bpf_map__set_initial_value(rodata, data.data(), data.size()),
			    "cannot set constant " + name + " of " + file_);
	}
	Result<void> set_target(const std::string &program, const std::string &pin,
				const std::string &function) override
	{
		ASSIGN_OR_RETURN(auto fd, open_pin(pin));

		if (const int code = bpf_program__set_attach_target(find_program(program), fd.get(), function.c_str());
		    code < 0)
			return bpf_error("the program at " + pin + " has no function " + function, -code);
		targets_.push_back(std::move(fd)); // load() needs it
		return {};
	}

	Result<void> load(bool ops_by_link) override
	{
		std::map<std::string, std::unique_ptr<char[]>> logs;
		bpf_program *p = nullptr;

		bpf_object__for_each_program(p, object_.get()) {
			auto &log = logs[bpf_program__name(p)];

			log = std::make_unique_for_overwrite<char[]>(verifier_log_bytes);
			log[0] = '\0';
			bpf_program__set_log_buf(p, log.get(), verifier_log_bytes);
		}
		if (ops_by_link)
			bpf_map__set_map_flags(ops_map(), bpf_map__map_flags(ops_map()) | flag_ops_link);
		by_link_ = ops_by_link;

		const int code = bpf_object__load(object_.get());

		bpf_object__for_each_program(p, object_.get())
			bpf_program__set_log_buf(p, nullptr, 0);
		if (code >= 0)
			return {};
		for (const auto &[name, log] : logs)
			if (const std::string why = verdict(log.get()); !why.empty()) {
				verifier_log_ = log.get();
				return Error{"the verifier refused program " + name + " of " + file_ +
						     ": " + why,
					     {}, {}, -code};
			}
		if (!messages_.first().empty())
			return Error{"cannot load " + file_ + ": " + messages_.first(), {}, {}, -code};
		return bpf_error("cannot load " + file_, -code);
	}

	std::string verifier_log() const override { return verifier_log_; }

	Result<void> write_map(const std::string &map, const BpfBytes &key, const BpfBytes &value) override
	{
		if (bpf_map_update_elem(map_fd(map), key.data(), value.data(), BPF_ANY) < 0)
			return bpf_error("cannot write map " + map, errno);
		return {};
	}
	Result<void> pin_map(const std::string &map, const std::string &pin) override
	{
		return pin_fd(map_fd(map), pin);
	}
	Result<void> pin_program(const std::string &program, const std::string &pin) override
	{
		return pin_fd(bpf_program__fd(find_program(program)), pin);
	}

	Result<void> attach_tracing(const std::string &program) override
	{
		const std::unique_ptr<bpf_link, int (*)(bpf_link *)> link(
			bpf_program__attach(find_program(program)), bpf_link__destroy);

		if (!link)
			return bpf_error("cannot attach program " + program, errno);
		links_[program] = Fd(fcntl(bpf_link__fd(link.get()), F_DUPFD_CLOEXEC, 0));
		return {};
	}
	Result<void> attach_cgroup(const std::string &program, const std::string &cgroup) override
	{
		const Fd dir(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

		if (!dir)
			return errno_error("cannot open cgroup " + cgroup, errno);

		// Links are beside what others have attached, never in its place.
		const bpf_program *p = find_program(program);
		Fd link(bpf_link_create(bpf_program__fd(p), dir.get(), bpf_program__expected_attach_type(p),
					nullptr));

		if (!link && errno == EBADF)
			return Error{"not a directory of cgroup2", cgroup};
		if (!link && errno == EPERM)
			return Error{"cannot attach to cgroup " + cgroup +
					     ": a program there or above was attached without "
					     "BPF_F_ALLOW_MULTI and allows no other",
				     {}, {}, EPERM};
		if (!link)
			return bpf_error("cannot attach to cgroup " + cgroup, errno);
		links_[program] = std::move(link);
		return {};
	}
	Result<void> pin_link(const std::string &program, const std::string &pin) override
	{
		return pin_fd(links_[program].get(), pin);
	}

	Result<void> register_ops() override
	{
		const int fd = bpf_map__fd(ops_map());
		const std::unique_ptr<bpf_link, int (*)(bpf_link *)> link(
			bpf_map__attach_struct_ops(ops_map()), bpf_link__destroy);

		if (!link)
			return register_error(errno);
		if (bpf_link__fd(link.get()) != fd) { // newer libbpf makes the link itself
			ops_link_ = Fd(fcntl(bpf_link__fd(link.get()), F_DUPFD_CLOEXEC, 0));
			return {};
		}
		bpf_link__disconnect(link.get()); // and so it does not unregister
		if (!by_link_)
			return {};
		ops_link_ = Fd(bpf_link_create(fd, 0, attach_ops, nullptr));
		if (!ops_link_)
			return register_error(errno);
		return {};
	}
	Result<void> pin_ops_link(const std::string &pin) override { return pin_fd(ops_link_.get(), pin); }

	Result<void> prepare_ops() override
	{
		// Newer libbpf goes on to register it, which cannot be while the name is taken:
		// the content is there all the same.
		const std::unique_ptr<bpf_link, int (*)(bpf_link *)> link(
			bpf_map__attach_struct_ops(ops_map()), bpf_link__destroy);

		if (link)
			bpf_link__disconnect(link.get());
		else if (errno != EEXIST)
			return register_error(errno);
		return {};
	}

private:
	struct CloseObject {
		void operator()(bpf_object *o) const { bpf_object__close(o); }
	};

	template <typename Open>
	static Result<std::unique_ptr<BpfObject>> open(const std::string &what, std::uint8_t cong_control_args,
						       Open open_it)
	{
		auto self = std::make_unique<RealObject>();

		self->object_.reset(open_it());
		if (const long code = libbpf_get_error(self->object_.get()); code != 0) {
			(void)self->object_.release(); // newer libbpf: null; older: a code, not an object
			return Error{"not a BPF object that libbpf can read: " +
					     (self->messages_.first().empty() ?
						      std::string(std::strerror(static_cast<int>(-code))) :
						      self->messages_.first()),
				     what};
		}
		self->file_ = what;
		// Pins are ours to choose.
		bpf_map *m = nullptr;

		bpf_object__for_each_map(m, self->object_.get())
			bpf_map__set_pin_path(m, nullptr);
		RETURN_IF_ERROR(self->set_constant("cong_control_args", {std::byte{cong_control_args}}));
		return std::unique_ptr<BpfObject>(std::move(self));
	}

	[[nodiscard]] bpf_program *find_program(const std::string &name) const
	{
		return bpf_object__find_program_by_name(object_.get(), name.c_str());
	}
	[[nodiscard]] bpf_map *find_map(const std::string &name) const
	{
		return bpf_object__find_map_by_name(object_.get(), name.c_str());
	}
	[[nodiscard]] bpf_map *ops_map() const
	{
		bpf_map *m = nullptr;

		bpf_object__for_each_map(m, object_.get())
			if (bpf_map__type(m) == BPF_MAP_TYPE_STRUCT_OPS)
				return m;
		return nullptr;
	}
	[[nodiscard]] int map_fd(const std::string &name) const { return bpf_map__fd(find_map(name)); }

	[[nodiscard]] Error register_error(int code) const
	{
		const std::string what = "the kernel does not register " + file_;

		if (code == EEXIST)
			return Error{what + ": a congestion control of that name is there already", {}, {}, code};
		if (code == EINVAL)
			return Error{what + ": a function that every congestion control needs is missing, or the name differs",
				     {}, {}, code};
		return bpf_error(what, code);
	}

	LibbpfMessages messages_;
	std::string file_;
	std::unique_ptr<bpf_object, CloseObject> object_;
	std::string verifier_log_;
	std::map<std::string, Fd> links_; // by program
	std::vector<Fd> targets_;
	Fd ops_link_;
	bool by_link_ = false;
};

class RealHost final : public BpfHost {
public:
	BpfAbilities abilities() const override
	{
		BpfAbilities a;

		a.btf = types().known();
		a.struct_ops = types().ops_layout().has_value();
		a.ops_links = types().has_struct("bpf_struct_ops_link");
		a.bpffs = is_bpffs(bpffs) || is_bpffs(std::string(init_root) + bpffs);
		return a;
	}

	Result<std::unique_ptr<BpfObject>> open(const std::string &file) override
	{
		return RealObject::open(file, cong_control_args());
	}
	Result<std::unique_ptr<BpfObject>> open_built_in(const std::string &name) override
	{
		for (const BuiltInObject &object : built_in_objects())
			if (object.name == name)
				return RealObject::open(object, cong_control_args());
		return Error{"no BPF object of this name is built in", name, {}, ENOENT};
	}
	std::vector<std::string> built_in() const override
	{
		std::vector<std::string> names;

		for (const BuiltInObject &object : built_in_objects())
			names.emplace_back(object.name);
		return names;
	}
	Result<void> mount_bpffs() override
	{
		// In a mount namespace of our own it would go when we do.
		const bool own = mount_namespace_of("self") != mount_namespace_of("1");
		const Fd init(own ? ::open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC) : -1);

		if (init && mount_bpffs_in(init) == 0)
			return {};
		if (const int code = mount_bpffs_here(); code != 0)
			return errno_error("cannot mount bpffs at " + std::string(bpffs), code);
		return {};
	}

	Result<std::vector<std::string>> pins(const std::string &dir) const override
	{
		std::vector<std::string> names;
		std::error_code code;

		for (const auto &entry : std::filesystem::directory_iterator(seen_at(dir), code))
			names.push_back(entry.path().filename().string());
		if (code && code.value() != ENOENT)
			return errno_error("cannot list " + dir, code.value());
		std::sort(names.begin(), names.end());
		return names;
	}
	bool exists(const std::string &path) const override { return access(seen_at(path).c_str(), F_OK) == 0; }
	Result<void> make_dir(const std::string &dir) override
	{
		if (mkdir(seen_at(dir).c_str(), 0700) < 0 && errno != EEXIST)
			return errno_error("cannot make " + dir, errno);
		return {};
	}
	Result<void> remove_pin(const std::string &pin) override
	{
		if (unlink(seen_at(pin).c_str()) < 0 && errno != ENOENT)
			return errno_error("cannot remove " + pin, errno);
		return {};
	}
	Result<void> remove_dir(const std::string &dir) override
	{
		if (rmdir(seen_at(dir).c_str()) < 0 && errno != ENOENT && errno != ENOTEMPTY)
			return errno_error("cannot remove " + dir, errno);
		return {};
	}
	Result<void> rename(const std::string &from, const std::string &to) override
	{
		return rename_with(from, to, RENAME_NOREPLACE);
	}
	Result<void> exchange(const std::string &a, const std::string &b) override
	{
		return rename_with(a, b, RENAME_EXCHANGE);
	}
	Result<void> pin_again(const std::string &pin, const std::string &to) override
	{
		return open_pin(pin).and_then([&](Fd &fd) { return pin_fd(fd.get(), to); });
	}

	Result<BpfMap> map(const std::string &pin) const override
	{
		return open_pinned<bpf_map_info>(pin).and_then(
			[](auto &map) { return Result<BpfMap>(describe(map.info)); });
	}
	Result<void> create_hash(const BpfMap &map, const std::string &pin) override
	{
		LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
		const Fd fd(bpf_map_create(BPF_MAP_TYPE_HASH, map.name.c_str(), map.key_bytes,
					   map.value_bytes, map.max_entries, &options));

		if (!fd)
			return bpf_error("cannot make map " + map.name, errno);
		return pin_fd(fd.get(), pin);
	}
	Result<std::vector<BpfBytes>> keys(const std::string &pin) const override
	{
		ASSIGN_OR_RETURN(auto map, open_pinned<bpf_map_info>(pin));

		std::vector<BpfBytes> out;
		BpfBytes next(map.info.key_size);

		// Keys that come and go meanwhile may make it go round: a bound.
		while (out.size() < map.info.max_entries &&
		       bpf_map_get_next_key(map.fd.get(), out.empty() ? nullptr : out.back().data(),
					    next.data()) == 0)
			out.push_back(next);
		return out;
	}
	Result<std::optional<BpfBytes>> read(const std::string &pin, const BpfBytes &key) const override
	{
		ASSIGN_OR_RETURN(auto map, open_pinned<bpf_map_info>(pin));

		BpfBytes value(copied_bytes(map.info));

		if (bpf_map_lookup_elem(map.fd.get(), key.data(), value.data()) == 0)
			return std::optional(std::move(value));
		if (errno == ENOENT)
			return std::optional<BpfBytes>();
		return bpf_error("cannot read " + pin, errno);
	}
	Result<void> visit(const std::string &pin, const ShowEntry &show) const override
	{
		ASSIGN_OR_RETURN(auto map, open_pinned<bpf_map_info>(pin));

		std::set<BpfBytes> seen; // keys that go meanwhile make it begin again
		BpfBytes key(map.info.key_size);
		BpfBytes value(copied_bytes(map.info));
		bool first = true;

		for (std::uint64_t steps = 0; steps < 2 * std::uint64_t{map.info.max_entries}; steps++) {
			BpfBytes next(map.info.key_size);

			if (bpf_map_get_next_key(map.fd.get(), first ? nullptr : key.data(), next.data()) < 0) {
				if (errno != ENOENT)
					return bpf_error("cannot read " + pin, errno);
				break;
			}
			first = false;
			key = next;
			if (bpf_map_lookup_elem(map.fd.get(), key.data(), value.data()) == 0 && seen.insert(key).second)
				show(key, value);
		}
		return {};
	}
	Result<void> write(const std::string &pin, const BpfBytes &key, const BpfBytes &value) override
	{
		ASSIGN_OR_RETURN(auto map, open_pinned<bpf_map_info>(pin));

		BpfBytes copies;

		if (value.size() != map.info.value_size)
			return Error{"cannot write " + pin + ": its values have another size: who loaded it is of another version"};
		for (const std::size_t bytes = copied_bytes(map.info); copies.size() < bytes;) {
			copies.insert(copies.end(), value.begin(), value.end());
			if (per_cpu(map.info))
				copies.resize((copies.size() + 7) / 8 * 8);
		}
		if (bpf_map_update_elem(map.fd.get(), key.data(), copies.data(), BPF_ANY) < 0)
			return bpf_error("cannot write " + pin, errno);
		return {};
	}
	Result<void> erase(const std::string &pin, const BpfBytes &key) override
	{
		return open_pin(pin).and_then([&](Fd &fd) -> Result<void> {
			if (bpf_map_delete_elem(fd.get(), key.data()) < 0 && errno != ENOENT)
				return bpf_error("cannot write " + pin, errno);
			return {};
		});
	}

	Result<BpfProgramStatus> program(const std::string &pin) const override
	{
		return open_pinned<bpf_prog_info>(pin).and_then(
			[](auto &program) { return Result<BpfProgramStatus>(describe(program.info)); });
	}

	Result<std::string> cgroup_of(const std::string &link_pin) const override
	{
		return open_pinned<bpf_link_info>(link_pin).and_then([&](auto &link) -> Result<std::string> {
			if (link.info.type != BPF_LINK_TYPE_CGROUP)
				return Error{"not a link to a cgroup", link_pin};
			return link.info.cgroup.cgroup_id ? cgroup_path(link.info.cgroup.cgroup_id) :
							    std::string("(gone)");
		});
	}

	Result<void> attach_raw_tracepoint(const std::string &pin, const std::string &tracepoint,
					   const std::string &link_pin) override
	{
		return open_pin(pin).and_then([&](Fd &fd) -> Result<void> {
			const Fd link(bpf_raw_tracepoint_open(tracepoint.c_str(), fd.get()));

			if (!link)
				return bpf_error("cannot attach to tracepoint " + tracepoint, errno);
			return pin_fd(link.get(), link_pin);
		});
	}

	void detach(const std::string &link_pin) override
	{
		if (auto fd = open_pin(link_pin))
			bpf_link_detach(fd->get()); // not all kinds can; the pin's end ends them too
	}

	Result<void> replace_program(const std::string &link_pin, const std::string &pin) override
	{
		return update(link_pin, pin);
	}
	Result<void> replace_ops(const std::string &link_pin, const std::string &pin) override
	{
		return update(link_pin, pin);
	}

	Result<BpfOpsStatus> ops(const std::string &pin) const override
	{
		return open_pin(pin).and_then([&](Fd &fd) { return ops_status(fd.get()); });
	}
	Result<std::vector<BpfOpsStatus>> all_ops() const override
	{
		std::vector<BpfOpsStatus> out;
		const auto layout = types().ops_layout();
		const bool allowed = visit_maps([&](const Fd &fd, const bpf_map_info &info) {
			if (info.type != BPF_MAP_TYPE_STRUCT_OPS)
				return;
			if (const auto value = OpsValue::read(fd.get()))
				out.push_back(describe(*value, layout));
		});

		if (!allowed)
			return bpf_error("cannot list the kernel's BPF maps", errno);
		return out;
	}
	Result<BpfOpsParts> parts_of_ops(std::uint32_t id) const override
	{
		const Fd fd(bpf_map_get_fd_by_id(id));
		const auto layout = types().ops_layout();
		ASSIGN_OR_RETURN(auto value, fd ? OpsValue::read(fd.get()) :
				  Result<OpsValue>(bpf_error("cannot open struct_ops map " + std::to_string(id), errno)));
		BpfOpsParts parts;
		std::set<std::uint32_t> maps;

		for (const std::size_t at : layout ? layout->functions : std::vector<std::size_t>()) {
			const Fd program(bpf_prog_get_fd_by_id(value.program_id(at))); // there is none with 0
			const auto info = program ? info_of<bpf_prog_info>(program.get(), "a program") :
						    Result<bpf_prog_info>(Error{});

			if (!info)
				continue;
			parts.programs.push_back(describe(*info));
			for (const std::uint32_t map : maps_of_program(program))
				maps.insert(map);
		}
		for (const std::uint32_t map : maps)
			if (const Fd m(bpf_map_get_fd_by_id(map)); m)
				if (const auto info = info_of<bpf_map_info>(m.get(), "a map"))
					parts.maps.emplace_back(info->name);
		return parts;
	}
	Result<void> unregister_ops(std::uint32_t id) override
	{
		const Fd fd(bpf_map_get_fd_by_id(id));
		const std::uint32_t zero = 0;

		if (!fd || bpf_map_delete_elem(fd.get(), &zero) < 0)
			return bpf_error("cannot unregister struct_ops map " + std::to_string(id), errno);
		return {};
	}
	Result<void> register_copy(const std::string &pin, const std::string &to) override
	{
		ASSIGN_OR_RETURN(auto value,
				 open_pin(pin).and_then([](Fd &fd) { return OpsValue::read(fd.get()); }));
		const auto layout = types().ops_layout();

		if (!layout)
			return Error{"this kernel has no BTF"};

		// The kernel shows ids of programs where it takes their file descriptors.
		std::vector<Fd> programs;

		std::fill_n(value.bytes.begin(), 2 * sizeof(std::uint32_t), std::byte{});
		for (const std::size_t at : layout->functions) {
			const std::uint32_t id = value.program_id(at);

			if (id == 0)
				continue;
			const Fd &program = programs.emplace_back(bpf_prog_get_fd_by_id(id));

			if (!program)
				return bpf_error("cannot open program " + std::to_string(id), errno);
			const auto slot = static_cast<unsigned long>(program.get());

			std::memcpy(value.bytes.data() + at, &slot, sizeof(slot));
		}

		// The kernel asks for BTF of the map's owner with it.
		const Fd types_of_old(bpf_btf_get_fd_by_id(value.info.btf_id));

		LIBBPF_OPTS(bpf_map_create_opts, options,
			    .btf_fd = static_cast<std::uint32_t>(types_of_old.get()),
			    .btf_vmlinux_value_type_id = value.info.btf_vmlinux_value_type_id);
		const Fd copy(bpf_map_create(BPF_MAP_TYPE_STRUCT_OPS, value.info.name, sizeof(std::uint32_t),
					     value.info.value_size, 1, &options));
		const std::uint32_t zero = 0;

		if (!copy)
			return bpf_error("cannot make a struct_ops map", errno);
		RETURN_IF_ERROR(pin_fd(copy.get(), to));
		if (bpf_map_update_elem(copy.get(), &zero, value.bytes.data(), BPF_ANY) < 0)
			return bpf_error("cannot register it again", errno);
		return {};
	}

private:
	const KernelTypes &types() const
	{
		if (!types_)
			types_.emplace();
		return *types_;
	}
	[[nodiscard]] std::uint8_t cong_control_args() const
	{
		const auto layout = types().ops_layout();

		return layout ? layout->cong_control_args : std::uint8_t{0};
	}
	Result<BpfOpsStatus> ops_status(int fd) const
	{
		return OpsValue::read(fd).and_then(
			[&](OpsValue &v) { return Result<BpfOpsStatus>(describe(v, types().ops_layout())); });
	}

	// Programs and struct_ops maps alike: the kernel looks at the link.
	static Result<void> update(const std::string &link_pin, const std::string &pin)
	{
		auto link = open_pin(link_pin);
		auto fresh = open_pin(pin);

		if (!link || !fresh)
			return link ? fresh.error() : link.error();
		if (bpf_link_update(link->get(), fresh->get(), nullptr) < 0)
			return bpf_error("cannot replace what " + link_pin + " has", errno);
		return {};
	}

	static Result<void> rename_with(const std::string &from, const std::string &to, unsigned flags)
	{
		if (renameat2(AT_FDCWD, seen_at(from).c_str(), AT_FDCWD, seen_at(to).c_str(), flags) < 0)
			return errno_error("cannot rename " + from + " to " + to, errno);
		return {};
	}

	// The id of a cgroup is its file handle.
	static Result<std::string> cgroup_path(std::uint64_t id)
	{
		alignas(file_handle) std::array<std::byte, sizeof(file_handle) + sizeof(id)> bytes{};
		auto *handle = new (bytes.data()) file_handle;

		handle->handle_bytes = sizeof(id);
		handle->handle_type = handle_kernfs;
		std::memcpy(bytes.data() + sizeof(file_handle), &id, sizeof(id));
		for (const char *mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/proc/1/root/sys/fs/cgroup"}) {
			const Fd root(::open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
			struct statfs fs {};

			if (!root || fstatfs(root.get(), &fs) < 0 ||
			    static_cast<unsigned long>(fs.f_type) != CGROUP2_SUPER_MAGIC)
				continue;
			const Fd dir(open_by_handle_at(root.get(), handle, O_PATH | O_CLOEXEC));

			if (!dir)
				continue;
			std::error_code code;
			const auto path = std::filesystem::read_symlink(
				"/proc/self/fd/" + std::to_string(dir.get()), code);

			if (!code)
				return path.string();
		}
		return "cgroup id " + std::to_string(id);
	}

	LibbpfMessages messages_; // nothing of libbpf goes to standard error
	mutable std::optional<KernelTypes> types_;
};

} // namespace

Result<std::vector<std::pair<BpfBytes, BpfBytes>>> BpfHost::entries(const std::string &pin) const
{
	std::vector<std::pair<BpfBytes, BpfBytes>> out;
	RETURN_IF_ERROR(visit(pin, [&](std::span<const std::byte> key, std::span<const std::byte> value) {
		out.emplace_back(BpfBytes(key.begin(), key.end()), BpfBytes(value.begin(), value.end()));
	}));
	return out;
}

std::vector<Fd> bpf_flow_storages()
{
	std::vector<Fd> out;
	const bool all = visit_maps([&](Fd &&fd, const bpf_map_info &info) {
		if (info.type == BPF_MAP_TYPE_SK_STORAGE && info.name == std::string_view(storage_name) &&
		    info.value_size >= sizeof(tcp_swift_info))
			out.push_back(std::move(fd));
	});

	if (all) {
		std::reverse(out.begin(), out.end()); // the newest first: a request has room for some
		return out;
	}
	std::error_code code;

	for (const auto &entry : std::filesystem::directory_iterator(seen_at("/sys/fs/bpf/tcp_swift"), code)) {
		// A variant that is being made has the maps of the one that it replaces.
		if (entry.path().string().ends_with("~new"))
			continue;
		if (Fd fd(bpf_obj_get((entry.path() / storage_name).c_str())); fd)
			out.push_back(std::move(fd));
	}
	return out;
}

std::unique_ptr<BpfHost> real_bpf_host()
{
	return std::make_unique<RealHost>();
}

} // namespace swift
