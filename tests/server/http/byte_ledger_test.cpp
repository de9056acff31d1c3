#include "server/http/byte_ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvik {
namespace {

TEST(ByteLedger, gives_no_more_than_it_has_and_takes_it_back) {
  ByteLedger ledger(100);
  ByteShare first(ledger);
  EXPECT_TRUE(first.grow(60));
  {
    ByteShare second(ledger);
    EXPECT_FALSE(second.grow(41));
    EXPECT_EQ(second.n_bytes(), 0u);
    EXPECT_TRUE(second.grow(40));
    EXPECT_FALSE(first.grow(1));
  }
  EXPECT_EQ(ledger.used_bytes(), 60u);
  EXPECT_TRUE(first.resize(100));
  EXPECT_TRUE(first.resize(5));
  EXPECT_EQ(ledger.used_bytes(), 5u);
  EXPECT_FALSE(first.grow(SIZE_MAX));
}

TEST(ByteLedger, a_share_that_was_moved_is_given_back_once) {
  ByteLedger ledger(100);
  ByteShare first(ledger);
  EXPECT_TRUE(first.grow(60));
  ByteShare second = std::move(first);
  first.release();
  EXPECT_EQ(ledger.used_bytes(), 60u);
  second = ByteShare(ledger);
  EXPECT_EQ(ledger.used_bytes(), 0u);
  EXPECT_TRUE(first.grow(1)) << "it still knows its ledger";
}

TEST(ByteLedger, a_part_counts_in_the_whole_and_cannot_take_what_others_need) {
  ByteLedger whole(100);
  ByteLedger part(50, &whole);
  ByteShare bodies(part), others(whole);
  EXPECT_FALSE(bodies.grow(51));
  EXPECT_TRUE(others.grow(60));
  EXPECT_FALSE(bodies.grow(50)) << "the whole has 40 left";
  EXPECT_EQ(part.used_bytes(), 0u);
  EXPECT_TRUE(bodies.grow(40));
  EXPECT_EQ(whole.used_bytes(), 100u);
  bodies.release();
  EXPECT_EQ(whole.used_bytes(), 60u);
}

TEST(ByteLedger, returns_the_peak_since_the_last_call) {
  ByteLedger ledger(100);
  ByteShare share(ledger);
  EXPECT_TRUE(share.resize(80));
  EXPECT_TRUE(share.resize(10));
  EXPECT_EQ(ledger.take_peak_bytes(), 80u);
  EXPECT_EQ(ledger.take_peak_bytes(), 10u);
}

TEST(ByteLedger, a_share_without_a_ledger_is_unlimited) {
  ByteShare share;
  EXPECT_TRUE(share.grow(size_t{1} << 60));
  EXPECT_EQ(share.n_bytes(), size_t{1} << 60);
}

TEST(ByteLedger, threads_never_take_more_together_and_all_comes_back) {
  ByteLedger whole(1000);
  ByteLedger part(600, &whole);
  std::atomic<int> n_over{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (size_t round = 0; round < 5000; ++round) {
        ByteShare share(i % 2 == 0 ? whole : part);
        static_cast<void>(share.grow(round % 400));
        if (whole.used_bytes() > 1000 || part.used_bytes() > 600) ++n_over;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_over, 0);
  EXPECT_EQ(whole.used_bytes(), 0u);
  EXPECT_EQ(part.used_bytes(), 0u);
}

}  // namespace
}  // namespace kvik
