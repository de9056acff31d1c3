#include "base/file/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvik {
namespace {

using ::testing::HasSubstr;

class InputFileTest : public ::testing::Test {
 protected:
  ~InputFileTest() override { std::filesystem::remove(path_); }

  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  static Result<std::string> part(const InputFile& file, uint64_t offset, size_t n_bytes) {
    std::string text(n_bytes, 0);
    TRY(file.read(offset, std::as_writable_bytes(std::span(text))));
    return text;
  }

  const std::string path_ = testing::TempDir() + "kvik_input_" + std::to_string(::getpid());
};

TEST_F(InputFileTest, parts_are_those_of_the_file) {
  write("some bytes");
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(*part(*file, 0, 10), "some bytes");
  EXPECT_EQ(*part(*file, 5, 3), "byt");
  EXPECT_EQ(*part(*file, 10, 0), "");
}

TEST_F(InputFileTest, a_file_that_is_not_there_is_not_found) {
  const auto file = InputFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr(path_));
}

TEST_F(InputFileTest, folders_devices_and_pipes_are_refused_and_not_waited_for) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/"), std::string("/dev/null"), path_}) {
    const auto file = InputFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code, ErrorCode::kIo);
    EXPECT_THAT(file.error().message, HasSubstr("regular file"));
  }
}

TEST_F(InputFileTest, an_empty_file_is_corrupt) {
  write("");
  const auto file = InputFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(file.error().message, HasSubstr("is empty"));
}

TEST_F(InputFileTest, a_file_that_is_cut_while_it_is_read_is_an_error_that_says_so) {
  write(std::string(50000, 'a'));
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path_, 20000);
  EXPECT_EQ(part(*file, 0, 20000)->size(), 20000u);
  const auto cut = part(*file, 10000, 20000);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("ends at byte 20000, expected 50000"));
}

TEST_F(InputFileTest, an_open_file_moves_and_outlives_its_name) {
  write("first");
  auto file = InputFile::open(path_);
  ASSERT_TRUE(file);
  InputFile moved = std::move(*file);
  std::filesystem::remove(path_);
  write("second");
  auto second = InputFile::open(path_);
  ASSERT_TRUE(second);
  EXPECT_EQ(*part(moved, 0, 5), "first");
  moved = std::move(*second);
  EXPECT_EQ(*part(moved, 0, 6), "second");
}

}  // namespace
}  // namespace kvik
