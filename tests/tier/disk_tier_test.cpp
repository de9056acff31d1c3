#include "tier/disk_tier.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"
#include "tier/stored_pages.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 5000;  // 8 KiB slots
const PageKey kRoot = root_key("a model", "");

std::unique_ptr<DiskTier> open_tier(const TemporaryFolder& folder, uint64_t max_bytes = 8 << 20,
                                    FileCalls& calls = posix_file_calls()) {
  auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = max_bytes}, calls);
  CHECK(tier.has_value());
  return std::move(*tier);
}

// Makes file calls fail on demand.
class FailingCalls final : public FileCalls {
 public:
  std::atomic<int> allocate_error = 0, read_error = 0, write_error = 0, sync_error = 0;

  int allocate(int fd, uint64_t n_bytes) override {
    return allocate_error ? allocate_error.load() : FileCalls::allocate(fd, n_bytes);
  }
  int read(int fd, std::span<std::byte> bytes, uint64_t offset) override {
    return read_error ? read_error.load() : FileCalls::read(fd, bytes, offset);
  }
  int write(int fd, std::span<const std::byte> bytes, uint64_t offset) override {
    return write_error ? write_error.load() : FileCalls::write(fd, bytes, offset);
  }
  int sync(int fd) override { return sync_error ? sync_error.load() : FileCalls::sync(fd); }
};

// While it exists, no write to a file succeeds, so that no transaction of the index can commit.
class NoFileWrites {
 public:
  NoFileWrites() {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    CHECK(::getrlimit(RLIMIT_FSIZE, &limit_) == 0);
    const rlimit none = {.rlim_cur = 0, .rlim_max = limit_.rlim_max};
    CHECK(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  }
  ~NoFileWrites() {
    CHECK(::setrlimit(RLIMIT_FSIZE, &limit_) == 0);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

TEST(DiskTier, gives_back_what_was_put_also_after_it_was_closed) {
  const TemporaryFolder folder;
  const auto pages = chain_of_pages(kRoot, 330, 1, kPageBytes);
  {
    const auto tier = open_tier(folder);
    EXPECT_EQ(n_found(*tier, pages), 0u);
    ASSERT_TRUE(store(*tier, pages).has_value());
    EXPECT_EQ(n_found(*tier, pages), 11u);
    EXPECT_EQ(tier->size().n_pages, 11u);
  }
  const auto tier = open_tier(folder);
  EXPECT_EQ(n_found(*tier, pages), 11u);
  EXPECT_EQ(tier->size().n_pages, 11u);
}

TEST(DiskTier, pages_of_layer_groups_lie_side_by_side) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  pages.push_back(pages[0]);
  pages[1].page.group = 1;
  pages[1].bytes = bytes_of_page(pages[1].page, kPageBytes);
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(n_found(*tier, pages), 2u);
}

TEST(DiskTier, a_page_put_twice_is_stored_once) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  pages.push_back(pages[0]);
  ASSERT_TRUE(store(*tier, pages).has_value());
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(tier->size().n_pages, 2u);
}

TEST(DiskTier, a_page_of_another_model_or_salt_is_never_matched) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  ASSERT_TRUE(store(*tier, chain_of_pages(kRoot, 96, 1, kPageBytes)).has_value());
  for (const PageKey& root : {root_key("another model", ""), root_key("a model", "salt")}) {
    const auto other = chain_of_pages(root, 96, 1, kPageBytes);
    EXPECT_EQ(n_found(*tier, other), 0u);
    EXPECT_TRUE(tier->children(root, 0, SharingMark::kAll, 10).empty());
  }
}

// No two lists of tokens with the same key are known, so the test forges one.
TEST(DiskTier, where_two_pages_have_one_key_the_tokens_decide) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  auto forged = pages;
  forged[0].page.tokens[5] += 1;
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(look_up(*tier, forged[0]), Tier::Get::kDamaged);
  auto other_root = pages;
  other_root[0].page.root = root_key("another model", "");
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(look_up(*tier, other_root[0]), Tier::Get::kDamaged);
}

TEST(DiskTier, respects_its_limit_and_evicts_lru_leaves_first) {
  const TemporaryFolder folder;
  constexpr uint64_t kMaxBytes = 4 << 20;
  const auto tier = open_tier(folder, kMaxBytes);
  std::vector<std::vector<StoredPage>> chains;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    chains.push_back(chain_of_pages(kRoot, 320, seed, kPageBytes));
    ASSERT_TRUE(store(*tier, chains.back()).has_value());
    EXPECT_EQ(n_found(*tier, chains.front()), 10u) << "what is used stays";
    ASSERT_TRUE(tier->tidy_up().has_value());
  }
  EXPECT_GT(tier->size().n_evictions, 0u);
  EXPECT_LE(tier->size().n_bytes, kMaxBytes);
  uint64_t n_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    n_bytes += entry.file_size();
  }
  EXPECT_LE(n_bytes, kMaxBytes);
  EXPECT_EQ(n_found(*tier, chains.back()), 10u);
  for (const auto& chain : chains) {  // no page is kept after one that was evicted
    const size_t n = n_found(*tier, chain);
    EXPECT_EQ(n_found(*tier, std::span(chain).first(n)), n);
  }
}

TEST(DiskTier, pages_of_another_size_make_room_a_segment_at_a_time) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder, 4 << 20);
  const auto old = chain_of_pages(kRoot, 32 * 500, 1, kPageBytes);
  for (const StoredPage& page : old) ASSERT_TRUE(store(*tier, std::span(&page, 1)).has_value());
  const PageKey other_root = root_key("a larger model", "");
  const auto pages = chain_of_pages(other_root, 32 * 60, 2, 30000);
  for (const StoredPage& page : pages) ASSERT_TRUE(store(*tier, std::span(&page, 1)).has_value());
  EXPECT_EQ(n_found(*tier, pages), 60u);
  EXPECT_LE(tier->size().n_bytes, uint64_t{4} << 20);
}

TEST(DiskTier, a_chain_longer_than_the_disk_keeps_its_beginning) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder, 4 << 20);
  const auto pages = chain_of_pages(kRoot, 32 * 500, 1, kPageBytes);
  for (const StoredPage& page : pages) ASSERT_TRUE(store(*tier, std::span(&page, 1)).has_value());
  const size_t n = n_found(*tier, pages);
  EXPECT_GT(n, 200u);
  EXPECT_EQ(n_found(*tier, std::span(pages).first(n)), n);
}

TEST(DiskTier, a_second_process_is_refused_in_one_sentence) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto second = DiskTier::open({.folder = folder.path()});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find(folder.path()), std::string::npos);
}

TEST(DiskTier, a_lost_or_corrupt_index_is_rebuilt_from_the_pages) {
  const TemporaryFolder folder;
  const auto pages = chain_of_pages(kRoot, 320, 1, kPageBytes);
  ASSERT_TRUE(store(*open_tier(folder), pages).has_value());
  const std::string index = folder.path() + "/index.db";
  std::filesystem::resize_file(index, 0);
  for (uint64_t word = 0; word < 4096; ++word) {
    FILE* file = std::fopen(index.c_str(), "ab");
    std::fwrite(&word, sizeof(word), 1, file);
    std::fclose(file);
  }
  const auto tier = open_tier(folder);
  EXPECT_EQ(n_found(*tier, pages), 10u);
  EXPECT_EQ(tier->children(kRoot, 0, SharingMark::kAll, 5).size(), 1u);
}

TEST(DiskTier, a_write_that_fails_stores_nothing_and_the_tier_recovers) {
  for (const auto fail :
       {&FailingCalls::allocate_error, &FailingCalls::write_error, &FailingCalls::sync_error}) {
    const TemporaryFolder folder;
    FailingCalls calls;
    const auto tier = open_tier(folder, 8 << 20, calls);
    const auto pages = chain_of_pages(kRoot, 96, 1, kPageBytes);
    calls.*fail = ENOSPC;
    const auto done = store(*tier, pages);
    ASSERT_FALSE(done.has_value());
    EXPECT_NE(done.error().message.find("No space left"), std::string::npos);
    EXPECT_EQ(n_found(*tier, pages), 0u);
    EXPECT_EQ(tier->recover().has_value(), fail == &FailingCalls::write_error);
    calls.*fail = 0;
    ASSERT_TRUE(tier->recover().has_value());
    ASSERT_TRUE(store(*tier, pages).has_value());
    EXPECT_EQ(n_found(*tier, pages), 3u);
  }
}

TEST(DiskTier, an_eviction_that_cannot_be_committed_did_not_happen) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder, 4 << 20);
  std::vector<StoredPage> old;
  for (uint32_t seed = 0; tier->size().n_evictions == 0; ++seed) {
    const auto pages = chain_of_pages(kRoot, 32, seed, kPageBytes);
    ASSERT_TRUE(store(*tier, pages).has_value());
    old.push_back(pages.front());
  }
  const TierSize before = tier->size();
  ASSERT_EQ(n_found(*tier, old), before.n_pages);
  std::vector<StoredPage> added;
  for (uint32_t i = 0; i < 3; ++i) {
    added.push_back(chain_of_pages(kRoot, 32, 5000 + i, kPageBytes).front());
  }
  {
    const NoFileWrites no_writes;
    const auto done = store(*tier, added);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kIo);
  }
  EXPECT_EQ(tier->size().n_pages, before.n_pages);
  EXPECT_EQ(tier->size().n_evictions, before.n_evictions);
  EXPECT_EQ(n_found(*tier, old), before.n_pages);
  ASSERT_TRUE(store(*tier, added).has_value());
  EXPECT_EQ(n_found(*tier, added), 3u);
  EXPECT_EQ(n_found(*tier, old), before.n_pages - 3);
  EXPECT_EQ(tier->size().n_pages, before.n_pages);
  EXPECT_EQ(tier->verify()->n_damaged, 0u);
}

TEST(DiskTier, a_segment_removed_in_vain_leaves_no_rows) {
  const TemporaryFolder folder;
  FailingCalls calls;
  const auto tier = open_tier(folder, 4 << 20, calls);
  const auto old = chain_of_pages(kRoot, 96, 1, kPageBytes);
  ASSERT_TRUE(store(*tier, old).has_value());
  calls.allocate_error = ENOSPC;
  const auto larger = chain_of_pages(kRoot, 32, 2, 30000);
  ASSERT_FALSE(store(*tier, larger).has_value());
  EXPECT_EQ(tier->size().n_pages, 0u);
  EXPECT_EQ(tier->size().n_evictions, 3u);
  EXPECT_EQ(tier->children(kRoot, 0, SharingMark::kAll, 5).size(), 0u);
  calls.allocate_error = 0;
  ASSERT_TRUE(store(*tier, larger).has_value());
  ASSERT_TRUE(store(*tier, old).has_value());
  EXPECT_EQ(tier->size().n_pages, 4u);
  EXPECT_EQ(n_found(*tier, old) + n_found(*tier, larger), 4u);
}

TEST(DiskTier, a_page_that_cannot_be_read_is_a_miss_and_stays) {
  const TemporaryFolder folder;
  FailingCalls calls;
  const auto tier = open_tier(folder, 8 << 20, calls);
  const auto pages = chain_of_pages(kRoot, 96, 1, kPageBytes);
  ASSERT_TRUE(store(*tier, pages).has_value());
  calls.read_error = EIO;
  EXPECT_EQ(look_up(*tier, pages[1]), Tier::Get::kFailed);
  calls.read_error = 0;
  EXPECT_EQ(n_found(*tier, pages), 3u);
}

TEST(DiskTier, a_device_that_is_full_makes_room_among_the_pages_it_has) {
  const TemporaryFolder folder;
  FailingCalls calls;
  const auto tier = open_tier(folder, 4 << 20, calls);
  ASSERT_TRUE(store(*tier, chain_of_pages(kRoot, 32, 1, kPageBytes)).has_value());
  calls.allocate_error = ENOSPC;
  const auto pages = chain_of_pages(kRoot, 32 * 200, 2, kPageBytes);
  for (const StoredPage& page : pages) ASSERT_TRUE(store(*tier, std::span(&page, 1)).has_value());
  EXPECT_GE(n_found(*tier, pages), 50u);
}

TEST(DiskTier, a_folder_that_was_removed_is_noticed_and_made_again) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto pages = chain_of_pages(kRoot, 96, 1, kPageBytes);
  ASSERT_TRUE(store(*tier, pages).has_value());
  std::filesystem::remove_all(folder.path());
  EXPECT_FALSE(tier->tidy_up().has_value());
  EXPECT_FALSE(store(*tier, chain_of_pages(kRoot, 96, 2, kPageBytes)).has_value());
  ASSERT_TRUE(tier->recover().has_value());
  EXPECT_EQ(n_found(*tier, pages), 0u);
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(n_found(*tier, pages), 3u);
}

TEST(DiskTier, verify_finds_what_is_damaged_and_takes_it_out) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto pages = chain_of_pages(kRoot, 320, 1, kPageBytes);
  ASSERT_TRUE(store(*tier, pages).has_value());
  auto whole = tier->verify();
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->n_pages, 10u);
  EXPECT_EQ(whole->n_damaged, 0u);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".segment") continue;
    FILE* file = std::fopen(entry.path().c_str(), "r+b");
    std::fseek(file, 2 * 8192 + 3000, SEEK_SET);
    std::fputs("scratch", file);
    std::fclose(file);
  }
  whole = tier->verify();
  EXPECT_EQ(whole->n_damaged, 1u);
  whole = tier->verify();
  EXPECT_EQ(whole->n_pages, 9u);
  EXPECT_EQ(whole->n_damaged, 0u);
}

TEST(DiskTier, clear_removes_everything_and_the_tier_still_works) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto pages = chain_of_pages(kRoot, 320, 1, kPageBytes);
  ASSERT_TRUE(store(*tier, pages).has_value());
  ASSERT_TRUE(tier->clear().has_value());
  EXPECT_EQ(n_found(*tier, pages), 0u);
  EXPECT_EQ(tier->size().n_bytes, 0u);
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(n_found(*tier, pages), 10u);
}

TEST(DiskTier, is_trimmed_by_whole_segments_the_least_recently_used_first) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);  // segments of 1 MiB hold 128 pages
  std::vector<std::vector<StoredPage>> chains;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    chains.push_back(chain_of_pages(kRoot, 128 * 32, seed, kPageBytes));
    ASSERT_TRUE(store(*tier, chains.back()).has_value());
  }
  EXPECT_EQ(n_found(*tier, chains[0]), 128u);  // a use, so that the second chain is the oldest
  ASSERT_TRUE(tier->tidy_up().has_value());
  const uint64_t n_segment_bytes = tier->size().n_bytes / 4;
  ASSERT_TRUE(tier->trim_to(tier->size().n_bytes).has_value());
  EXPECT_EQ(tier->size().n_pages, 4 * 128u);
  ASSERT_TRUE(tier->trim_to(3 * n_segment_bytes - 1).has_value());
  EXPECT_EQ(tier->size().n_bytes, 2 * n_segment_bytes);
  for (const uint32_t seed : {0u, 3u}) EXPECT_EQ(n_found(*tier, chains[seed]), 128u);
  for (const uint32_t seed : {1u, 2u}) EXPECT_EQ(n_found(*tier, chains[seed]), 0u);
  ASSERT_TRUE(store(*tier, chains[1]).has_value());
  EXPECT_EQ(n_found(*tier, chains[1]), 128u);
}

TEST(DiskTier, readers_and_a_writer_at_the_same_time_get_whole_pages) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder, 4 << 20);
  std::vector<std::vector<StoredPage>> chains;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    chains.push_back(chain_of_pages(kRoot, 320, seed, kPageBytes));
  }
  std::atomic<bool> is_over = false;
  std::atomic<size_t> n_damaged = 0;
  std::vector<std::thread> readers;
  for (size_t r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      for (size_t i = r; !is_over; ++i) {
        for (const StoredPage& page : chains[i % chains.size()]) {
          if (look_up(*tier, page) == Tier::Get::kDamaged) ++n_damaged;
        }
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& chain : chains) EXPECT_TRUE(store(*tier, chain).has_value());
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(n_damaged, 0u);
}

TEST(DiskTier, too_few_bytes_are_refused) {
  const TemporaryFolder folder;
  const auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 1000});
  ASSERT_FALSE(tier.has_value());
  EXPECT_EQ(tier.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvik
