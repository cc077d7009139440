// SPDX-License-Identifier: MIT
// swiftctl: run what the command line says, leave. Nothing else belongs here.
#include <exception>

#include "cli.h"
#include "say.h"

int main(int argc, char **argv)
{
	try {
		return swift::run_command_line(argc, argv);
	} catch (const std::exception &e) {
		return swift::fail(swift::swiftctl_itself, e.what());
	}
}
