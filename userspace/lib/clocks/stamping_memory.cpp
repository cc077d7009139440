// SPDX-License-Identifier: MIT
#include "stamping_memory.h"

#include <linux/net_tstamp.h>

#include <cerrno>
#include <optional>

#include "json.h"
#include "text.h"

namespace swift {

namespace {

constexpr int memory_schema = 1;

Json json_of(const Stamping &s)
{
	return {{"tx_type", s.tx_type}, {"rx_filter", s.rx_filter}};
}

std::optional<int> number(const Json &j, const char *key)
{
	const auto at = j.find(key);

	if (at == j.end() || !at->is_number_integer())
		return std::nullopt;
	return at->get<int>();
}

std::optional<Stamping> stamping_of(const Json &j, const char *key)
{
	const auto at = j.find(key);

	if (at == j.end() || !at->is_object())
		return std::nullopt;

	const auto tx = number(*at, "tx_type");
	const auto rx = number(*at, "rx_filter");

	// What root obeys: nothing that the kernel does not know.
	if (!tx || !rx || *tx < 0 || *tx >= __HWTSTAMP_TX_CNT || *rx < 0 || *rx >= __HWTSTAMP_FILTER_CNT)
		return std::nullopt;
	return Stamping{*tx, *rx};
}

std::optional<std::vector<RememberedStamping>> remembered_of(const std::string &text, const std::string &boot)
{
	const Json j = Json::parse(text, nullptr, false);
	std::vector<RememberedStamping> all;

	if (!j.is_object() || number(j, "schema") != memory_schema || !j.contains("nics") ||
	    !j["nics"].is_array())
		return std::nullopt;
	// NICs begin anew with a boot. In /run there may be older ones, which do not tell.
	if (j.contains("boot_id") && j["boot_id"] != boot)
		return all;
	for (const Json &entry : j["nics"]) {
		const auto ifindex = number(entry, "ifindex");
		const auto before = stamping_of(entry, "before");
		const auto written = stamping_of(entry, "written");
		std::string iface = text_member(entry, "iface").value_or("");

		if (!ifindex || *ifindex <= 0 || !before || !written || iface.empty() || iface.size() > 15 ||
		    iface.find_first_of("/ \t\n") != std::string::npos)
			return std::nullopt;
		all.push_back({std::move(iface), static_cast<std::uint32_t>(*ifindex), *before, *written});
	}
	return all;
}

} // namespace

StampingMemory::StampingMemory(Files &files, const std::string &netns, Keeper keeper)
	: files_(files), path_(std::string(state_dir(keeper)) + "/clock-" + netns + ".json"),
	  lock_path_(std::string(state_dir(Keeper::service)) + "/clock-" + netns + ".lock")
{
}

Result<void> StampingMemory::hold()
{
	auto held = files_.lock(lock_path_);

	if (!held && held.error().code != EWOULDBLOCK)
		return held.error();
	if (!held) {
		// "another swiftd (pid 1234) is changing this host ..."
		const std::string why = held.error().text();
		const std::string who = why.starts_with("another ") ? why.substr(8, why.find(" is changing ") - 8) : why;

		return Error{"another clock feeder runs in this network namespace: " + who, {}, {}, EBUSY};
	}
	lock_ = *held;
	return {};
}

Result<std::vector<RememberedStamping>> StampingMemory::load() const
{
	if (!exists())
		return std::vector<RememberedStamping>{};

	ASSIGN_OR_RETURN(auto text, files_.read_record(path_));
	auto all = remembered_of(text, boot_id(files_));

	if (!all)
		return Error{"cannot make sense of " + path_ +
			     ", which remembers how NICs stamped before; move it away to start anew"};
	return std::move(*all);
}

Result<void> StampingMemory::save(const std::vector<RememberedStamping> &all)
{
	Json j;

	if (all.empty())
		return files_.remove_file(path_);
	j["schema"] = memory_schema;
	j["what"] = "how NICs stamped before the clock feeder; it, or swiftctl clock restore, puts it back";
	j["boot_id"] = boot_id(files_);
	j["nics"] = Json::array();
	for (const RememberedStamping &r : all)
		j["nics"].push_back({{"iface", r.iface},
				     {"ifindex", r.ifindex},
				     {"before", json_of(r.before)},
				     {"written", json_of(r.written)}});
	return files_.replace_file(path_, json_text(j), 0600);
}

Result<PutBack> put_back(Nics &nics, const RememberedStamping &r)
{
	const auto t = nics.timestamps(r.iface);

	if (!t && t.error().code == ENODEV)
		return PutBack::gone;
	if (!t)
		return t.error();
	if (t->now == r.before)
		return PutBack::already;
	if (t->now && *t->now != r.written)
		return PutBack::left;

	auto done = nics.set_stamping(r.iface, r.before);

	if (!done && done.error().code == ENODEV)
		return PutBack::gone;
	if (!done)
		return done.error();
	return PutBack::done;
}

} // namespace swift
