// SPDX-License-Identifier: MIT
// A made-up host: files, a module that loads, qdiscs that fall back to the default, and
// faults at a chosen operation.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nics.h"
#include "sockets.h"
#include "system.h"
#include "text.h"
#include "tunables.h"

namespace swift_test {

class FakeSystem : public swift::System, public swift::Nics, public swift::Sockets {
public:
	struct Dev {
		bool multi_queue = false;
		std::string kind; // of the root, or of mq's children
		bool by_hand = false;
		std::string options = "{}"; // as tc tells them
		bool operator==(const Dev &) const = default;
	};

	std::map<std::string, std::string> files = {
		{"/proc/sys/net/core/default_qdisc", "pfifo_fast\n"},
		{"/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"},
		{"/proc/sys/net/ipv4/tcp_allowed_congestion_control", "cubic reno\n"},
		{"/sys/class/net/eth0", ""},
		{"/sys/class/net/eth1", ""},
	};
	std::map<std::string, Dev> devs = {{"eth0", {false, "pfifo_fast"}},
					   {"eth1", {true, "pfifo_fast"}}};
	std::map<std::string, std::string> outputs; // of further commands
	bool installed = true;
	bool root = true;
	bool has_fq = true;
	int fail_at = 0; // the number of the changing operation that fails; 0: none
	bool dead_after = false; // and so does every later one: the power is gone
	int operations = 0;
	std::vector<std::string> log;
	std::vector<swift::Flow> sockets;
	std::map<std::string, swift::Coalescing> coalesce;
	std::map<std::string, swift::NicTimestamps> stamps;
	std::optional<std::uint64_t> rtt_ns;
	std::optional<swift::Credit> peer_credit; // of the handshake
	std::optional<std::vector<swift::NicClock>> clocks; // of the module; none: it has no clocks

	// Everything that enable and disable can touch, in the network namespace where it is.
	auto world() const { return std::pair(files, devs); }

	// Goes to another network namespace, which begins with eth0 if it is a new one; "" is the initial one.
	void enter(const std::string &netns)
	{
		Netns &left = elsewhere_[netns_];

		left.devs = std::exchange(devs, {});
		for (auto at = files.begin(); at != files.end();)
			if (of_netns(at->first))
				left.files.insert(files.extract(at++));
			else
				++at;
		if (!elsewhere_.contains(netns)) {
			elsewhere_[netns] = {{{"/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"},
					      {"/proc/sys/net/ipv4/tcp_allowed_congestion_control", "cubic reno\n"},
					      {"/sys/class/net/eth0", ""}},
					     {{"eth0", {false, "noqueue"}}}};
			if (loaded())
				add_sysctls(elsewhere_[netns].files);
		}
		Netns &entered = elsewhere_[netns];

		files.merge(entered.files);
		devs = entered.devs;
		elsewhere_.erase(netns_ = netns);
	}

	bool exists(const std::string &path) const override
	{
		return files.contains(path) || locks_.contains(path) ||
		       std::any_of(files.begin(), files.end(), [&](const auto &f) {
			       return f.first.starts_with(path + "/");
		       });
	}
	swift::Result<std::string> read_file(const std::string &path) const override
	{
		if (const auto lock = locks_.find(path); lock != locks_.end())
			return lock->second.content;
		if (path == "/proc/thread-self/net/dev")
			return net_dev();
		const auto at = files.find(path);

		if (at == files.end())
			return swift::errno_error("cannot open " + path, ENOENT);
		return at->second;
	}
	swift::Result<std::vector<std::string>> list_dir(const std::string &path) const override
	{
		std::set<std::string> names;

		for (const auto &[name, content] : files)
			if (name.starts_with(path + "/"))
				names.insert(swift::split(name.substr(path.size() + 1), '/')[0]);
		if (names.empty() && !files.contains(path))
			return swift::errno_error("cannot list " + path, ENOENT);
		return std::vector<std::string>(names.begin(), names.end());
	}
	swift::Result<void> write_file(const std::string &path, const std::string &content) override
	{
		if (const auto lock = locks_.find(path); lock != locks_.end()) {
			lock->second.content = content;
			return {};
		}
		if (auto ok = operation("write " + path); !ok)
			return ok;
		if (!files.contains(path))
			return swift::errno_error("cannot open " + path, ENOENT);
		if (path.ends_with("/tcp_congestion_control") && content == "swift" && !loaded())
			return swift::errno_error("cannot write", ENOENT);
		if (path.ends_with("/default_qdisc") && content == "fq" && !has_fq)
			return swift::errno_error("cannot write", ENOENT);
		if (path.ends_with("/tcp_allowed_congestion_control") && !netns_.empty())
			return swift::errno_error("cannot write", EACCES);
		files[path] = content + "\n";
		auto &allowed = files["/proc/sys/net/ipv4/tcp_allowed_congestion_control"];

		// The kernel keeps its own order, and the initial namespace's default is always allowed.
		auto list = swift::words(allowed);

		if (path.ends_with("/tcp_congestion_control") && netns_.empty())
			list.push_back(content);
		std::sort(list.begin(), list.end());
		list.erase(std::unique(list.begin(), list.end()), list.end());
		allowed.clear();
		for (const auto &word : list)
			allowed += (allowed.empty() ? "" : " ") + word;
		allowed += "\n";
		return {};
	}
	swift::Result<void> replace_file(const std::string &path, const std::string &content,
					 unsigned) override
	{
		if (auto ok = operation("replace " + path); !ok)
			return ok;
		files[path] = content;
		return {};
	}
	swift::Result<void> remove_file(const std::string &path) override
	{
		if (!files.contains(path))
			return {};
		if (auto ok = operation("remove " + path); !ok)
			return ok;
		files.erase(path);
		return {};
	}
	swift::Result<swift::CommandResult> run(const std::vector<std::string> &argv) override
	{
		std::string line;

		for (const std::string &s : argv)
			line += (line.empty() ? "" : " ") + s;
		if (const auto at = outputs.find(line); at != outputs.end())
			return swift::CommandResult{0, at->second, {}};
		if (argv[0] == "modinfo")
			return swift::CommandResult{installed ? 0 : 1, {}, {}};
		if (line.starts_with("tc -j qdisc show"))
			return show(argv[5]);
		if (argv[0] == "ip")
			return swift::CommandResult{1, {}, "no"};
		if (auto ok = operation(line); !ok)
			return swift::CommandResult{2, {}, ok.error().text()};
		if (argv[0] == "modprobe" || argv[0] == "insmod")
			return load();
		if (argv[0] == "rmmod")
			return unload();
		if (line.starts_with("tc qdisc replace dev")) {
			Dev &dev = devs[argv[4]];

			dev.kind = argv[6] == "mq" ? default_qdisc() : argv[6];
			dev.by_hand = true;
			dev.options = "{}";
			return swift::CommandResult{};
		}
		if (line.starts_with("tc qdisc del dev")) {
			devs[argv[4]].kind = default_qdisc();
			devs[argv[4]].by_hand = false;
			devs[argv[4]].options = "{}";
			return swift::CommandResult{};
		}
		return swift::Error{"cannot find the command " + argv[0]};
	}
	swift::Result<std::shared_ptr<void>> lock(const std::string &path) override
	{
		Lock &lock = locks_[path];

		if (!lock.held.expired())
			return swift::Error{"another swiftctl is changing this host (it holds " + path + "); try again when it is done",
					    {}, {}, EWOULDBLOCK};
		auto held = std::make_shared<int>();

		lock.held = held;
		return std::shared_ptr<void>(held);
	}
	swift::Result<std::vector<swift::Flow>> tcp_sockets(std::uint32_t) override { return sockets; }
	swift::Result<swift::Coalescing> coalescing(const std::string &dev) override
	{
		if (!coalesce.contains(dev))
			return swift::errno_error(dev, EOPNOTSUPP);
		return coalesce[dev];
	}
	swift::Result<swift::NicTimestamps> timestamps(const std::string &dev) override
	{
		return stamps[dev];
	}
	swift::Result<swift::Stamping> set_stamping(const std::string &dev,
						    const swift::Stamping &wanted) override
	{
		stamps[dev].now = wanted;
		return wanted;
	}
	swift::Result<std::vector<swift::NicClock>> nic_clocks() override
	{
		if (!clocks)
			return swift::Error{"the module tcp_swift is not loaded", {}, {}, ENOENT};
		return *clocks;
	}
	swift::Result<swift::Handshake> handshake(const std::string &, std::uint16_t) override
	{
		if (!rtt_ns)
			return swift::Error{"the peer does not answer within a second"};
		return swift::Handshake{*rtt_ns, peer_credit};
	}
	bool is_root() const override { return root; }

	bool loaded() const { return files.contains("/sys/module/tcp_swift/refcnt"); }

	swift::CommandResult load()
	{
		if (!installed)
			return {1, {}, "modprobe: FATAL: Module tcp_swift not found"};
		files["/sys/module/tcp_swift/refcnt"] = "0\n";
		add_sysctls(files);
		for (auto &[name, netns] : elsewhere_)
			add_sysctls(netns.files);
		return {};
	}

private:
	// Apart from files: it stays there, and is no change.
	struct Lock {
		std::weak_ptr<void> held;
		std::string content;
	};
	std::map<std::string, Lock> locks_;
	struct Netns {
		std::map<std::string, std::string> files;
		std::map<std::string, Dev> devs;
	};
	std::string netns_; // where it is
	std::map<std::string, Netns> elsewhere_;

	static bool of_netns(const std::string &path)
	{
		return path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/");
	}

	static void add_sysctls(std::map<std::string, std::string> &to)
	{
		for (const swift::Tunable &t : swift::tunables())
			to["/proc/sys/net/ipv4/tcp_swift/" + std::string(t.name)] =
				t.name == "target_policy" ? "base_rtt_plus\n" :
							    std::to_string(t.fallback) + "\n";
	}

	std::string net_dev() const
	{
		const std::string begin = "/sys/class/net/";
		std::string text = "Inter-|   Receive\n face |bytes\n";

		for (const auto &[path, content] : files)
			if (path.starts_with(begin))
				text += "  " + swift::split(path.substr(begin.size()), '/')[0] + ": 0 0\n";
		return text;
	}

	swift::CommandResult unload()
	{
		if (swift::trim(files["/sys/module/tcp_swift/refcnt"]) != "0")
			return {1, {}, "rmmod: ERROR: Module tcp_swift is in use"};
		const auto of_module = [](const auto &f) {
			return f.first.find("tcp_swift/") != std::string::npos &&
			       (f.first.starts_with("/sys/") || f.first.starts_with("/proc/"));
		};

		std::erase_if(files, of_module);
		for (auto &[name, netns] : elsewhere_)
			std::erase_if(netns.files, of_module);
		return {};
	}

	std::string default_qdisc() const
	{
		const auto at = files.find("/proc/sys/net/core/default_qdisc");

		return at == files.end() ? "noqueue" : std::string(swift::trim(at->second));
	}

	swift::CommandResult show(const std::string &name)
	{
		const Dev &d = devs[name];
		const std::string handle = d.by_hand ? "8001:" : "0:";

		if (!d.multi_queue)
			return {0, "[{\"kind\":\"" + d.kind + "\",\"handle\":\"" + handle +
				   "\",\"root\":true,\"refcnt\":2,\"options\":" + d.options + "}]\n", {}};
		return {0, "[{\"kind\":\"mq\",\"handle\":\"" + handle + "\",\"root\":true,\"options\":{}},"
			   "{\"kind\":\"" + d.kind + "\",\"handle\":\"0:\",\"parent\":\":2\",\"options\":" + d.options + "},"
			   "{\"kind\":\"" + d.kind + "\",\"handle\":\"0:\",\"parent\":\":1\",\"options\":{}}]",
			{}};
	}

	swift::Result<void> operation(const std::string &what)
	{
		operations++;
		if (fail_at && (operations == fail_at || (dead_after && operations > fail_at)))
			return swift::Error{"injected"};
		log.push_back(what);
		return {};
	}
};

} // namespace swift_test
