// SPDX-License-Identifier: MIT
#include "built_in.h"

#include <array>

// The bytes of an object, in read-only memory. No skeleton of bpftool's: one and the same code loads these objects and
// those of --object, which come with other maps and names, so that a struct for each of ours would serve nobody.
#define EMBED(symbol, file)                                                                  \
	asm(".pushsection .rodata\n"                                                         \
	    ".balign 16\n"                                                                   \
	    "swift_bpf_" #symbol ":\n"                                                       \
	    ".incbin \"" SWIFT_BPF_OBJECTS "/" file "\"\n"                                   \
	    "swift_bpf_" #symbol "_end:\n"                                                   \
	    ".global swift_bpf_" #symbol "\n"                                                \
	    ".global swift_bpf_" #symbol "_end\n"                                            \
	    ".popsection\n");                                                                \
	extern "C" const char swift_bpf_##symbol[];                                          \
	extern "C" const char swift_bpf_##symbol##_end[];
#define BYTES(symbol) std::span(swift_bpf_##symbol, swift_bpf_##symbol##_end)

EMBED(swift, "bpf_swift.bpf.o")
EMBED(swift_v0, "bpf_swift_v0.bpf.o")
EMBED(timely, "bpf_timely.bpf.o")
EMBED(gcn, "bpf_gcn.bpf.o")
EMBED(telemetry, "swift_telemetry.bpf.o")

namespace swift {

std::span<const BuiltInObject> built_in_objects()
{
	static const std::array<BuiltInObject, 5> objects{{
		{"bpf_swift", BYTES(swift)},
		{"bpf_swift_v0", BYTES(swift_v0)},
		{"bpf_timely", BYTES(timely)},
		{"bpf_gcn", BYTES(gcn)},
		{"telemetry", BYTES(telemetry)},
	}};

	return objects;
}

} // namespace swift
