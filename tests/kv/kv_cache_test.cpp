#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace kvik {
namespace {

// Host memory without a backend.
class PlainMemory final : public Memory {
 public:
  Buffer allocate(size_t bytes) override { return Buffer(*this, new std::byte[bytes](), bytes); }
  void copy_in(std::byte* destination, std::span<const std::byte> host) override {
    std::memcpy(destination, host.data(), host.size());
  }
  void copy_out(std::span<std::byte> host, const std::byte* source) override {
    std::memcpy(host.data(), source, host.size());
  }
  void clear(std::byte* destination, size_t bytes) override { std::memset(destination, 0, bytes); }

 private:
  void free(std::byte* data, size_t) override { delete[] data; }
};

TEST(KvCache, holds_as_many_pages_as_the_budget_and_no_more) {
  PlainMemory memory;
  KvCache cache(memory, 1000, 256);
  EXPECT_EQ(cache.counts().free, 3u);
  EXPECT_EQ(cache.n_tokens_max(), 96u);
}

TEST(KvCache, grows_a_table_page_by_page) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  PageTable table;
  EXPECT_TRUE(cache.grow(table, 1));
  EXPECT_EQ(table.n_pages(), 1u);
  EXPECT_TRUE(cache.grow(table, 32));
  EXPECT_EQ(table.n_pages(), 1u);
  EXPECT_TRUE(cache.grow(table, 33));
  EXPECT_EQ(table.n_pages(), 2u);
  EXPECT_EQ(table.addresses().size(), 2u);
  EXPECT_NE(table.addresses()[0], table.addresses()[1]);
}

TEST(KvCache, takes_nothing_where_not_all_can_be_had) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  PageTable table;
  EXPECT_FALSE(cache.grow(table, 5 * 32));
  EXPECT_EQ(table.n_pages(), 0u);
  EXPECT_EQ(cache.counts().free, 4u);
}

TEST(KvCache, a_page_taken_again_is_cleared) {
  PlainMemory memory;
  KvCache cache(memory, 64, 64);
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 1));
  std::memset(table.addresses()[0], 0xff, 64);
  table.clear();
  EXPECT_EQ(cache.counts().free, 1u);
  ASSERT_TRUE(cache.grow(table, 1));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(table.addresses()[0][i], std::byte{0});
}

}  // namespace
}  // namespace kvik
