// SPDX-License-Identifier: MIT
// The BPF objects of this version, inside the program: what is loaded needs no installed file.
#pragma once

#include <span>
#include <string_view>

namespace swift {

struct BuiltInObject {
	std::string_view name; // as `swiftctl bpf load` takes it
	std::span<const char> bytes; // ELF, with BTF
};

[[nodiscard]] std::span<const BuiltInObject> built_in_objects();

} // namespace swift
