#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvik {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  ~MappedFileTest() override { std::filesystem::remove(path_); }

  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  static std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  const std::string path_ = testing::TempDir() + "kvik_mapped_" + std::to_string(::getpid());
};

TEST_F(MappedFileTest, bytes_are_those_of_the_file) {
  write("some bytes");
  const auto file = MappedFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_EQ(text_of(*file), "some bytes");
}

TEST_F(MappedFileTest, a_file_that_is_not_there_is_not_found) {
  const auto file = MappedFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr(path_));
}

TEST_F(MappedFileTest, a_folder_and_a_device_are_refused) {
  for (const char* path : {"/", "/dev/null"}) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code, ErrorCode::kIo);
  }
}

TEST_F(MappedFileTest, an_empty_file_is_corrupt) {
  write("");
  const auto file = MappedFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(file.error().message, HasSubstr("is empty"));
}

TEST_F(MappedFileTest, released_parts_read_the_same_again) {
  std::string text(50000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  write(text);
  const auto file = MappedFile::open(path_);
  ASSERT_TRUE(file);
  file->release(file->bytes());
  file->release(file->bytes().subspan(5000, 10000));
  file->release(file->bytes().subspan(100, 10));
  file->release(file->bytes().subspan(4095, 2));
  file->release({});
  EXPECT_EQ(text_of(*file), text);
}

TEST_F(MappedFileTest, a_mapping_moves_and_outlives_its_name) {
  write("first");
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file);
  MappedFile moved = std::move(*file);
  std::filesystem::remove(path_);
  write("second");
  auto second = MappedFile::open(path_);
  ASSERT_TRUE(second);
  EXPECT_EQ(text_of(moved), "first");
  moved = std::move(*second);
  EXPECT_EQ(text_of(moved), "second");
}

}  // namespace
}  // namespace kvik
