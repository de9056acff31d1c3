#include "base/file/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t n_files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

class NewFileTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/file";
};

TEST_F(NewFileTest, is_there_whole_once_it_is_committed_and_not_before) {
  auto file = NewFile::create(path_, 0644);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->write(bytes_of("one ")).has_value());
  ASSERT_TRUE(file->write(bytes_of("two")).has_value());
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(content_of(path_), "one two");
  EXPECT_EQ(n_files_in(folder_.path()), 1u);
}

TEST_F(NewFileTest, leaves_no_file_without_commit) {
  {
    auto file = NewFile::create(path_, 0644);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->write(bytes_of("half")).has_value());
  }
  EXPECT_EQ(n_files_in(folder_.path()), 0u);
}

TEST_F(NewFileTest, replaces_what_is_there_and_keeps_its_permissions) {
  std::ofstream(path_) << "old";
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  auto file = NewFile::create(path_, 0600);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->write(bytes_of("new")).has_value());
  EXPECT_EQ(content_of(path_), "old");
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(content_of(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(NewFileTest, a_link_stays_one) {
  const std::string link = folder_.path() + "/link";
  std::ofstream(path_) << "old";
  fs::create_symlink(path_, link);
  auto file = NewFile::create(link, 0644);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->write(bytes_of("new")).has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content_of(path_), "new");
}

TEST_F(NewFileTest, names_a_folder_that_is_not_there_and_a_folder_in_its_place) {
  const auto missing = NewFile::create(folder_.path() + "/no/file", 0644);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/file': No such file"));
  const auto folder = NewFile::create(folder_.path(), 0644);
  ASSERT_FALSE(folder.has_value());
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
}

TEST_F(NewFileTest, replaces_no_pipe_and_no_device) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/full")}) {
    const auto file = NewFile::create(path, 0644);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_THAT(file.error().message, HasSubstr("it is a device, pipe or socket"));
  }
}

TEST_F(NewFileTest, a_full_disk_is_an_error_and_leaves_no_file) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto file = NewFile::create(path_, 0644);
    ASSERT_TRUE(file.has_value());
    EXPECT_FALSE(file->reserve(1 << 20).has_value());
    const std::string much(8192, 'x');
    const auto written = file->write(bytes_of(much));
    ASSERT_FALSE(written.has_value());
    EXPECT_THAT(written.error().message, HasSubstr("cannot write"));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(n_files_in(folder_.path()), 0u);
}

}  // namespace
}  // namespace kvik
