#include "hub/download/part_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "hub/download/file_lock.h"

namespace kvik {
namespace {

constexpr uint64_t kChunk = PartFile::kChunkBytes;

class PartFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/part_file_test-" + std::to_string(getpid());
  const std::string path_ = folder_ + "/x";
};

std::vector<std::byte> bytes_of(size_t n, int value) {
  return std::vector<std::byte>(n, static_cast<std::byte>(value));
}

TEST_F(PartFileTest, chunks_that_were_saved_are_complete_in_the_next_process) {
  const uint64_t n_bytes = 3 * kChunk + 5;
  {
    auto part = *PartFile::open(path_, n_bytes, "id");
    EXPECT_FALSE(part.was_resumed());
    ASSERT_TRUE(part.write(kChunk, bytes_of(kChunk, 7)));
    part.mark_complete(kChunk, 2 * kChunk);
    ASSERT_TRUE(part.save());
    part.mark_complete(0, kChunk);  // not saved: the process is killed
  }
  auto part = *PartFile::open(path_, n_bytes, "id");
  EXPECT_TRUE(part.was_resumed());
  EXPECT_FALSE(part.is_chunk_complete(0));
  EXPECT_TRUE(part.is_chunk_complete(1));
  EXPECT_EQ(part.complete_bytes(), kChunk);
  part.mark_complete(3 * kChunk, n_bytes);
  EXPECT_EQ(part.complete_bytes(), kChunk + 5);
}

TEST_F(PartFileTest, half_a_chunk_is_not_complete) {
  auto part = *PartFile::open(path_, 2 * kChunk, "id");
  part.mark_complete(0, kChunk - 1);
  EXPECT_FALSE(part.is_chunk_complete(0));
  part.mark_complete(0, kChunk + 1);
  EXPECT_TRUE(part.is_chunk_complete(0));
  EXPECT_FALSE(part.is_chunk_complete(1));
}

TEST_F(PartFileTest, another_id_size_or_damage_begins_anew) {
  const auto save_one = [&] {
    auto part = *PartFile::open(path_, 2 * kChunk, "id");
    part.mark_complete(0, kChunk);
    ASSERT_TRUE(part.save());
  };
  save_one();
  EXPECT_FALSE(PartFile::open(path_, 2 * kChunk, "other")->was_resumed());
  save_one();
  EXPECT_FALSE(PartFile::open(path_, 3 * kChunk, "id")->was_resumed());
  save_one();
  std::fstream(path_, std::ios::in | std::ios::out).seekp(2 * kChunk) << 'X';
  EXPECT_FALSE(PartFile::open(path_, 2 * kChunk, "id")->was_resumed());
  save_one();
  std::filesystem::resize_file(path_, 2 * kChunk + 3);
  EXPECT_FALSE(PartFile::open(path_, 2 * kChunk, "id")->was_resumed());
}

TEST_F(PartFileTest, a_finished_file_has_no_trailer_and_is_complete_when_opened_again) {
  {
    auto part = *PartFile::open(path_, kChunk + 1, "id");
    part.mark_complete(0, kChunk + 1);
    ASSERT_TRUE(part.is_complete());
    ASSERT_TRUE(part.finish());
  }
  EXPECT_EQ(std::filesystem::file_size(path_), kChunk + 1);
  EXPECT_TRUE(PartFile::open(path_, kChunk + 1, "id")->is_complete());
}

TEST_F(PartFileTest, random_writes_give_the_same_file) {
  std::mt19937 random(1);
  const uint64_t n_bytes = 9 * kChunk + 1234;
  std::vector<std::byte> expected(n_bytes);
  for (std::byte& b : expected) b = static_cast<std::byte>(random());
  bool is_complete = false;
  while (!is_complete) {
    auto part = *PartFile::open(path_, n_bytes, "id");
    for (int i = 0; i < 4; ++i) {
      const uint64_t chunk = random() % part.n_chunks();
      const uint64_t begin = part.chunk_begin(chunk), end = part.chunk_begin(chunk + 1);
      const uint64_t stop = random() % 3 == 0 ? begin + (end - begin) / 2 : end;
      ASSERT_TRUE(part.write(begin, std::span(expected).subspan(begin, stop - begin)));
      part.mark_complete(begin, stop);
    }
    ASSERT_TRUE(part.save());
    is_complete = part.is_complete();
    if (is_complete) {
      ASSERT_TRUE(part.finish());
    }
  }
  std::ifstream file(path_, std::ios::binary);
  std::string found((std::istreambuf_iterator<char>(file)), {});
  ASSERT_EQ(found.size(), n_bytes);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), n_bytes), 0);
}

TEST_F(PartFileTest, a_lock_excludes_another_and_ends_with_its_owner) {
  auto first = FileLock::try_lock(path_);
  ASSERT_TRUE(first && *first);
  EXPECT_FALSE(FileLock::try_lock(path_)->has_value());
  first->reset();
  EXPECT_TRUE(FileLock::try_lock(path_)->has_value());
}

}  // namespace
}  // namespace kvik
