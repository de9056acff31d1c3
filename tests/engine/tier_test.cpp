#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kv/tiers/disk_tier.h"
#include "support/temporary_folder.h"
#include "support/tiny_engine.h"

// Pages that went through a disk are the same bytes, and are found to the token.
namespace kvik {
namespace {

// A disk that takes its time for each page.
class SlowTier final : public Tier {
 public:
  SlowTier(Tier& disk, std::chrono::milliseconds get_time) : disk_(disk), get_time_(get_time) {}
  Get get(const TierPage& wanted, std::span<std::byte> slot, size_t n_bytes) override {
    std::this_thread::sleep_for(get_time_);
    return disk_.get(wanted, slot, n_bytes);
  }
  std::vector<Child> children(const PageKey& parent, uint32_t group, size_t limit) override {
    return disk_.children(parent, group, limit);
  }
  Result<void> put(std::span<Put> pages) override { return disk_.put(pages); }
  size_t head_bytes() const override { return disk_.head_bytes(); }
  size_t alignment() const override { return disk_.alignment(); }
  size_t slot_bytes(size_t n_page_bytes) const override { return disk_.slot_bytes(n_page_bytes); }
  Result<void> recover() override { return disk_.recover(); }
  Result<void> tidy_up() override { return disk_.tidy_up(); }
  TierSize size() const override { return disk_.size(); }

 private:
  Tier& disk_;
  const std::chrono::milliseconds get_time_;
};

// An engine over a disk tier, as after a start of the process.
class DiskRig {
 public:
  DiskRig(const TemporaryFolder& folder, TinyEngineOptions options,
          std::chrono::milliseconds get_time = {}) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
    CHECK(tier.has_value());
    tier_ = std::move(*tier);
    slow_ = std::make_unique<SlowTier>(*tier_, get_time);
    options.tier = get_time.count() > 0 ? slow_.get() : static_cast<Tier*>(tier_.get());
    rig_ = std::make_unique<EngineRig>(options);
  }

  std::shared_ptr<RecordingSink> run(Request request) {
    const auto sink = rig_->submit(std::move(request));
    while (!sink->is_finished()) {
      if (!rig_->engine().step()) rig_->engine().wait_for_tier(std::chrono::milliseconds(5));
    }
    return sink;
  }
  void wait_until_saved() {
    do {
      rig_->engine().step();
      rig_->engine().wait_for_tier(std::chrono::milliseconds(5));
    } while (rig_->engine().snapshot().tier.queue_pages > 0);
  }
  Engine& engine() { return rig_->engine(); }

 private:
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<SlowTier> slow_;
  std::unique_ptr<EngineRig> rig_;  // gone first
};

Request logits_request(const std::vector<TokenId>& prompt) {
  Request request = greedy_request(prompt, 5);
  request.logits = Request::Logits::kLast;
  return request;
}

TEST(DiskPages, give_the_same_bits_after_a_restart_for_every_model_and_page_type) {
  for (const char* name : {"test-llama:f32", "test-gemma2:q4_0", "test-gemma3:bf16"}) {
    for (const KvType type : kAllKvTypes) {
      const TemporaryFolder folder;
      const TinyEngineOptions options{.model = {.name = name}, .n_pages = 200, .kv_type = type};
      const auto cold = EngineRig(options).run(logits_request(some_tokens(150)));
      DiskRig(folder, options).run(logits_request(some_tokens(150)));
      DiskRig warm(folder, options);
      const auto sink = warm.run(logits_request(some_tokens(150)));
      EXPECT_EQ(sink->usage().cached_tokens, 149u) << name << " " << name_of(type);
      EXPECT_EQ(sink->usage().cache.disk_tokens, 149u);
      EXPECT_EQ(sink->tokens(), cold->tokens());
      ASSERT_EQ(sink->logits().size(), cold->logits().size());
      for (size_t i = 0; i < cold->logits().size(); ++i) {
        EXPECT_TRUE(same_bits(sink->logits()[i].second, cold->logits()[i].second));
      }
    }
  }
}

TEST(DiskPages, are_found_to_the_token_where_a_prompt_leaves_them) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.n_pages = 200};
  DiskRig(folder, options).run(greedy_request(some_tokens(100), 3));
  for (const uint32_t n_kept : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 99u}) {
    auto tokens = some_tokens(100);
    for (size_t i = n_kept; i < tokens.size(); ++i) tokens[i] = 3;
    DiskRig rig(folder, options);
    EXPECT_EQ(rig.run(greedy_request(tokens, 3))->usage().cached_tokens, n_kept);
  }
}

TEST(DiskPages, that_memory_gave_up_come_back) {
  const TemporaryFolder folder;
  DiskRig rig(folder, {.n_pages = 40});
  const auto first = rig.run(greedy_request(some_tokens(150, 1), 3));
  for (uint32_t seed = 2; seed < 16; ++seed) {
    rig.run(greedy_request(some_tokens(150, seed), 3));
    rig.wait_until_saved();
  }
  EXPECT_GT(rig.engine().snapshot().evictions, 0u);
  const auto again = rig.run(greedy_request(some_tokens(150, 1), 3));
  EXPECT_EQ(again->usage().cached_tokens, 149u);
  EXPECT_GT(again->usage().cache.disk_tokens, 0u);
  EXPECT_EQ(again->tokens(), first->tokens());
  EXPECT_EQ(rig.engine().snapshot().pages.leased + rig.engine().snapshot().pages.sealed, 0u);
}

// The clock of the rig moves by milliseconds a step, however many tokens that computes.
TEST(DiskPages, are_not_read_where_computing_them_is_known_to_be_quicker) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.n_pages = 40};
  for (uint32_t seed = 1; seed < 6; ++seed) {
    DiskRig(folder, options).run(greedy_request(some_tokens(300, seed), 3));
  }
  DiskRig rig(folder, options, std::chrono::milliseconds(15));
  rig.run(greedy_request(some_tokens(300, 7), 3));  // what computing so many takes
  const auto asked = rig.run(greedy_request(some_tokens(300, 1), 3));
  EXPECT_GT(asked->usage().cache.disk_tokens, 0u) << "nothing is known of the disk yet";
  const auto pages_read = rig.engine().snapshot().tier.pages_read;
  EXPECT_GE(pages_read, 8u);
  const auto computed = rig.run(greedy_request(some_tokens(300, 2), 3));
  EXPECT_EQ(computed->usage().cached_tokens, 0u);
  EXPECT_EQ(computed->usage().cache.miss, MissReason::kTierTimedOut);
  EXPECT_EQ(rig.engine().snapshot().tier.pages_read, pages_read);
}

TEST(DiskPages, of_one_salt_are_not_found_by_another) {
  const TemporaryFolder folder;
  Request request = greedy_request(some_tokens(100), 3);
  request.cache_salt = "one";
  DiskRig(folder, {.n_pages = 100}).run(request);
  DiskRig rig(folder, {.n_pages = 100});
  request.cache_salt = "two";
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 0u);
  request.cache_salt = "one";
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 99u);
}

TEST(DiskPages, a_request_without_the_cache_neither_reads_nor_writes_them) {
  const TemporaryFolder folder;
  Request request = greedy_request(some_tokens(100), 3);
  DiskRig rig(folder, {.n_pages = 100});
  request.cache = Request::Cache::kOff;
  rig.run(request);
  rig.wait_until_saved();
  EXPECT_EQ(rig.engine().snapshot().tier.pages_written, 0u);
}

TEST(DiskPages, whoever_is_cancelled_while_pages_come_leaves_none_leased) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.n_pages = 100};
  DiskRig(folder, options).run(greedy_request(some_tokens(500), 3));
  DiskRig rig(folder, options);
  for (int round = 0; round < 20; ++round) {
    const auto sink = std::make_shared<RecordingSink>();
    rig.engine().submit(RequestId{100}, greedy_request(some_tokens(500), 3), sink);
    for (int i = 0; i < round % 4; ++i) rig.engine().step();
    rig.engine().cancel(RequestId{100});
    EXPECT_TRUE(sink->is_finished());
  }
  rig.run(greedy_request(some_tokens(40, 9), 3));
  const PageCounts pages = rig.engine().snapshot().pages;
  EXPECT_EQ(pages.leased + pages.sealed, 0u);
}

}  // namespace
}  // namespace kvik
