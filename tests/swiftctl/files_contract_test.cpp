// SPDX-License-Identifier: MIT
// What files and locks promise, held against the real host's (below a folder) and the tests' made-up ones:
// a fake that is kinder than what it stands for hides faults.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
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

// A write() gets as far as this, and says so; the next one fails.
class FilesUpTo {
public:
	explicit FilesUpTo(rlim_t bytes)
	{
		getrlimit(RLIMIT_FSIZE, &before_);
		const rlimit limit = {bytes, before_.rlim_max};

		setrlimit(RLIMIT_FSIZE, &limit);
	}
	~FilesUpTo()
	{
		setrlimit(RLIMIT_FSIZE, &before_);
		std::signal(SIGXFSZ, handler_);
	}
	FilesUpTo(const FilesUpTo &) = delete;
	FilesUpTo &operator=(const FilesUpTo &) = delete;

private:
	rlimit before_{};
	void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
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

// A disk that is full takes the first part.
TEST(RealFiles, what_is_not_written_whole_says_why)
{
	const std::string text(2000, 'x');
	std::string dir = std::filesystem::temp_directory_path() / "swift-files-XXXXXX";

	ASSERT_TRUE(mkdtemp(dir.data()));
	const auto system = real_system(dir);

	ASSERT_TRUE(system->replace_file("/a", "one", 0600));
	Result<void> replaced, written;
	{
		const FilesUpTo limit(1000);

		errno = ENOENT; // of something before
		replaced = system->replace_file("/a", text, 0600);
		EXPECT_EQ(*system->read_file("/a"), "one");
		EXPECT_EQ(*system->list_dir("/"), std::vector<std::string>{"a"});
		errno = ENOENT;
		written = system->write_file("/a", text);
	}
	std::filesystem::remove_all(dir);
	ASSERT_FALSE(replaced);
	EXPECT_EQ(replaced.error().code, EFBIG) << replaced.error().text();
	ASSERT_FALSE(written);
	EXPECT_EQ(written.error().code, EIO) << written.error().text();
}

INSTANTIATE_TEST_SUITE_P(Hosts, FilesContract, testing::Values("real", "fake", "nics"));
