// SPDX-License-Identifier: MIT
// What swiftd's log shows of names of others.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "hostile_name.h"
#include "log.h"

namespace swift {
namespace {

TEST(Log, NamesInItArePrintable)
{
	const auto before = spdlog::default_logger();

	testing::internal::CaptureStderr();
	start_log({"info", "text"});
	spdlog::warn("{}: no clock is fed", swift_test::hostile_name);
	const std::string said = testing::internal::GetCapturedStderr();

	spdlog::set_default_logger(before);
	swift_test::expect_printable(said);
	EXPECT_TRUE(said.ends_with(" warning: e?[31mx?: no clock is fed\n")) << said;
}

} // namespace
} // namespace swift
