// SPDX-License-Identifier: MIT
#include "netns_visit.h"

#include <sched.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "clock_ns.h"

namespace swift {

namespace {

NetnsVisit visit_here(const std::vector<Netns> &all, const std::function<void(const Netns &, int)> &visit)
{
	NetnsVisit out;

	for (const Netns &n : all) {
		const auto fd = n.open();
		const int wrong = fd && setns(fd->get(), CLONE_NEWNET) < 0 ? errno : 0;

		if (fd && wrong == 0) {
			out.entered++;
			visit(n, fd->get());
		} else if (!fd && fd.error().code == ENOENT) {
			out.gone.push_back(n.inode);
		} else if (wrong != EINVAL) { // else it is a namespace of another kind
			out.refused++;
			if (!out.trouble)
				out.trouble = fd ? errno_error("cannot enter network namespace " + n.name, wrong) :
						   fd.error();
		}
	}
	return out;
}

} // namespace

NetnsVisit visit_netns(const std::vector<Netns> &all, const std::function<void(const Netns &n, int ns)> &visit)
{
	NetnsVisit out;

	if (all.empty())
		return out;
	try {
		std::thread([&] {
			out = visit_here(all, visit);
			out.cpu_s = static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID)) / real_ns_per_s;
		}).join();
	} catch (const std::system_error &e) {
		out.refused = all.size();
		out.trouble = Error{std::string("no thread to enter other network namespaces: ") + e.what()};
	}
	return out;
}

} // namespace swift
