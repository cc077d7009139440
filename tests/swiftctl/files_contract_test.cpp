// SPDX-License-Identifier: MIT
// What files and locks promise, held against the real host's (below a folder) and the tests' made-up ones:
// a fake that is kinder than what it stands for hides faults.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "fake_clock_host.h"
#include "fake_system.h"
#include "system.h"

using namespace swift;

namespace {

class FilesContract : public testing::TestWithParam<const char *> {
protected:
	void SetUp() override
	{
		if (GetParam() == std::string_view("real")) {
			std::string dir = std::filesystem::temp_directory_path() / "swift-files-XXXXXX";

			ASSERT_TRUE(mkdtemp(dir.data()));
			dir_ = dir;
			files_ = real_system(dir);
		} else if (GetParam() == std::string_view("fake")) {
			files_ = std::make_unique<swift_test::FakeSystem>();
		} else {
			files_ = std::make_unique<swift_test::NicSystem>();
		}
	}
	void TearDown() override
	{
		if (!dir_.empty())
			std::filesystem::remove_all(dir_);
	}

	std::filesystem::path dir_;
	std::unique_ptr<Files> files_;
};

} // namespace

TEST_P(FilesContract, a_lock_is_held_by_one_until_he_lets_go)
{
	auto first = files_->lock("/run/x/lock");
	const auto other = files_->lock("/run/x/other");
	const auto second = files_->lock("/run/x/lock");

	ASSERT_TRUE(first);
	EXPECT_TRUE(other);
	ASSERT_FALSE(second);
	EXPECT_EQ(second.error().code, EWOULDBLOCK);
	EXPECT_EQ(second.error().text().find("another "), 0U) << second.error().text();
	EXPECT_NE(second.error().text().find(" is changing this host (it holds /run/x/lock); try again when it is done"),
		  std::string::npos)
		<< second.error().text();
	// Its file is there, for a word of the holder's.
	EXPECT_TRUE(files_->exists("/run/x/lock"));
	EXPECT_EQ(*files_->read_file("/run/x/lock"), "");
	EXPECT_TRUE(files_->write_file("/run/x/lock", "12\n"));
	EXPECT_EQ(*files_->read_file("/run/x/lock"), "12\n");
	first = Error{};
	EXPECT_TRUE(files_->lock("/run/x/lock"));
}

TEST_P(FilesContract, files_are_written_where_they_are_and_replaced_anywhere)
{
	EXPECT_EQ(files_->read_file("/a/b").error().code, ENOENT);
	EXPECT_EQ(files_->write_file("/a/b", "x").error().code, ENOENT);
	EXPECT_EQ(files_->list_dir("/a").error().code, ENOENT);
	EXPECT_FALSE(files_->exists("/a"));
	ASSERT_TRUE(files_->replace_file("/a/b", "one", 0600));
	ASSERT_TRUE(files_->replace_file("/a/b", "two", 0600));
	EXPECT_EQ(*files_->read_file("/a/b"), "two");
	EXPECT_EQ(*files_->list_dir("/a"), std::vector<std::string>{"b"});
	EXPECT_TRUE(files_->exists("/a"));
	EXPECT_TRUE(files_->remove_file("/a/b"));
	EXPECT_TRUE(files_->remove_file("/a/b")); // gone already
	EXPECT_EQ(files_->read_file("/a/b").error().code, ENOENT);
}

INSTANTIATE_TEST_SUITE_P(Hosts, FilesContract, testing::Values("real", "fake", "nics"));
