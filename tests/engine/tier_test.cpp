#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"
#include "support/tiny_engine.h"
#include "tier/disk_tier.h"
#include "tier/folder_tier.h"

// Pages that were read from a disk tier have the same bytes, and prefixes are found up to the last
// token.
namespace kvik {
namespace {

// A disk tier that delays each page, or cannot be read.
class SlowTier final : public Tier {
 public:
  SlowTier(Tier& disk, std::chrono::milliseconds get_time) : disk_(disk), get_time_(get_time) {}
  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
          size_t n_bytes) override {
    std::this_thread::sleep_for(get_time_);
    if (!can_read) return Get::kFailed;
    return disk_.get(wanted, reader, slot, n_bytes);
  }
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override {
    return disk_.children(parent, group, reader, limit);
  }
  Result<void> put(std::span<Put> pages) override { return disk_.put(pages); }
  size_t head_bytes() const override { return disk_.head_bytes(); }
  size_t alignment() const override { return disk_.alignment(); }
  size_t slot_bytes(size_t n_page_bytes) const override { return disk_.slot_bytes(n_page_bytes); }
  Result<void> recover() override { return disk_.recover(); }
  Result<void> tidy_up() override { return disk_.tidy_up(); }
  TierSize size() const override { return disk_.size(); }

  bool can_read = true;  // set before the first step

 private:
  Tier& disk_;
  const std::chrono::milliseconds get_time_;
};

// Runs steps until all pages are written. A step hands over as many pages as the tier has slots
// for, so all are written if a step neither writes a page nor leaves one waiting.
void wait_until_saved(Engine& engine) {
  const auto is_waiting = [](const TierCounters& tier) {
    return !tier.is_degraded && tier.queue_pages > 0;
  };
  AllTierCounters before, now = engine.tier_counters();
  do {
    before = now;
    engine.step();
    engine.wait_for_tier(std::chrono::milliseconds(5));
    now = engine.tier_counters();
  } while (std::ranges::any_of(now, is_waiting) ||
           !std::ranges::equal(now, before, {}, &TierCounters::pages_written,
                               &TierCounters::pages_written));
}

// An engine over a disk tier, as after a restart of the process.
class DiskRig {
 public:
  DiskRig(const TemporaryFolder& folder, TinyEngineOptions options,
          std::chrono::milliseconds get_time = {}) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
    CHECK(tier.has_value());
    tier_ = std::move(*tier);
    slow_ = std::make_unique<SlowTier>(*tier_, get_time);
    options.tiers = {
        {TierKind::kDisk, get_time.count() > 0 ? slow_.get() : static_cast<Tier*>(tier_.get())}};
    rig_ = std::make_unique<EngineRig>(options);
  }

  std::shared_ptr<RecordingSink> run(Request request) {
    const auto sink = rig_->submit(std::move(request));
    run_until_finished(*sink);
    return sink;
  }
  void run_until_finished(const RecordingSink& sink) {
    while (!sink.is_finished()) {
      if (!rig_->engine().step()) rig_->engine().wait_for_tier(std::chrono::milliseconds(5));
    }
  }
  void wait_until_saved() { kvik::wait_until_saved(rig_->engine()); }
  Engine& engine() { return rig_->engine(); }
  SlowTier& slow() { return *slow_; }

 private:
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<SlowTier> slow_;
  std::unique_ptr<EngineRig> rig_;  // destroyed first
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
      const uint32_t n_found = 149;
      EXPECT_EQ(sink->usage().cached_tokens, n_found) << name << " " << name_of(type);
      EXPECT_EQ(sink->usage().cache.tier_tokens, n_found);
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

Request request_of(const char* tenant, std::vector<TokenId> prompt) {
  Request request = greedy_request(std::move(prompt), 3);
  request.tenant = tenant;
  return request;
}

TEST(DiskPages, evicted_ones_return_only_for_their_tenant) {
  const TemporaryFolder folder;
  DiskRig rig(folder, {.n_pages = 40, .sharing = Sharing::kTwo});
  const auto of_ann = some_tokens(150, 1), shared = some_tokens(150, 2);
  rig.run(request_of("ann", of_ann));
  rig.run(request_of("ann", shared));
  EXPECT_EQ(rig.run(request_of("bob", shared))->usage().cached_tokens, 0u);
  for (uint32_t seed = 3; seed < 18; ++seed) {
    rig.run(request_of("dan", some_tokens(150, seed)));
    rig.wait_until_saved();
  }
  const auto of_bob = rig.run(request_of("bob", of_ann));
  EXPECT_EQ(of_bob->usage().cached_tokens, 0u);
  EXPECT_EQ(of_bob->usage().cache.miss, MissReason::kNeverSeen);
  const auto cats = rig.run(request_of("cat", shared));
  EXPECT_EQ(cats->usage().cached_tokens, 149u);
  EXPECT_GT(cats->usage().cache.tier_tokens, 0u);
}

TEST(DiskPages, evicted_ones_are_read_again) {
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
  EXPECT_GT(again->usage().cache.tier_tokens, 0u);
  EXPECT_EQ(again->tokens(), first->tokens());
  EXPECT_EQ(rig.engine().snapshot().pages.leased + rig.engine().snapshot().pages.sealed, 0u);
}

TEST(DiskPages, that_were_released_while_their_prompt_waited_are_read_again) {
  constexpr uint32_t kPrompt = 300, kPages = 10;  // of the prompt that waits
  const TemporaryFolder folder;
  // The cost of computing stays unknown with so few rows, so the tier is asked each time.
  const TinyEngineOptions options{.n_pages = 24, .max_step_tokens = 64};
  const auto cold = DiskRig(folder, options).run(greedy_request(some_tokens(kPrompt), 3));
  DiskRig rig(folder, options);
  // The running sequence leaves room for the fetched pages but not for a copy of the last one. Its
  // answer then needs the fetched pages.
  const uint32_t n_running = rig.engine().snapshot().pages.free - kPages - 1;
  const auto running = std::make_shared<RecordingSink>();
  const auto prompt = some_tokens(n_running * kPageTokens - 10, 2);
  rig.engine().submit(RequestId{100}, greedy_request(prompt, 150), running);
  while (running->tokens().empty()) rig.engine().step();
  const auto waiting = std::make_shared<RecordingSink>();
  rig.engine().submit(RequestId{101}, greedy_request(some_tokens(kPrompt), 3), waiting);
  // The fetch ends while the other sequence runs, however slow the disk is.
  while (rig.engine().snapshot().tiers[0].pages_read < kPages && !running->is_finished()) {
    rig.engine().step();
    rig.engine().wait_for_tier(std::chrono::milliseconds(100));
  }
  rig.run_until_finished(*waiting);
  EXPECT_TRUE(running->is_finished());
  EXPECT_EQ(waiting->usage().cached_tokens, kPrompt - 1);
  EXPECT_EQ(waiting->tokens(), cold->tokens());
  const TierCounters disk = rig.engine().snapshot().tiers[0];
  EXPECT_GT(disk.pages_read, kPages) << "more than once";
  EXPECT_EQ(disk.hit_tokens, waiting->usage().cache.tier_tokens) << "the others were still cached";
}

TEST(DiskPages, that_cannot_be_read_are_computed_and_reported) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.n_pages = 40};
  const auto cold = DiskRig(folder, options).run(greedy_request(some_tokens(150), 3));
  DiskRig rig(folder, options, std::chrono::milliseconds(1));
  rig.slow().can_read = false;
  const auto computed = rig.run(greedy_request(some_tokens(150), 3));
  EXPECT_EQ(computed->usage().cached_tokens, 0u);
  EXPECT_EQ(computed->usage().cache.miss, MissReason::kTierFailed);
  EXPECT_EQ(computed->tokens(), cold->tokens());
  EXPECT_EQ(rig.engine().snapshot().tiers[0].misses_failed, 1u);
}

// The clock of the rig advances by some milliseconds per step, for any number of tokens.
TEST(DiskPages, are_not_read_if_computing_them_is_faster) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.n_pages = 40};
  for (uint32_t seed = 1; seed < 6; ++seed) {
    DiskRig(folder, options).run(greedy_request(some_tokens(300, seed), 3));
  }
  DiskRig rig(folder, options, std::chrono::milliseconds(15));
  // Teaches the cost of computing that many tokens.
  rig.run(greedy_request(some_tokens(300, 7), 3));
  const auto asked = rig.run(greedy_request(some_tokens(300, 1), 3));
  EXPECT_GT(asked->usage().cache.tier_tokens, 0u) << "nothing is known of the disk yet";
  const auto pages_read = rig.engine().snapshot().tiers[0].pages_read;
  EXPECT_GE(pages_read, 8u);
  const auto computed = rig.run(greedy_request(some_tokens(300, 2), 3));
  EXPECT_EQ(computed->usage().cached_tokens, 0u);
  EXPECT_EQ(computed->usage().cache.miss, MissReason::kTierDeclined);
  EXPECT_EQ(rig.engine().snapshot().tiers[0].misses_declined, 1u);
  EXPECT_EQ(rig.engine().snapshot().tiers[0].pages_read, pages_read);
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
  EXPECT_EQ(rig.engine().snapshot().tiers[0].pages_written, 0u);
}

TEST(DiskPages, a_cancel_during_a_fetch_leaves_no_lease) {
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

// --- several tiers ---

// An engine over a folder of its own and a shared one.
class StackRig {
 public:
  StackRig(const std::vector<std::string>& folders, TinyEngineOptions options = {.n_pages = 100}) {
    for (const std::string& folder : folders) {
      tiers_.push_back(std::make_unique<FolderTier>(FolderTierOptions{.folder = folder}));
      const auto kind = static_cast<TierKind>(options.tiers.size());
      options.tiers.push_back({kind, tiers_.back().get()});
    }
    rig_ = std::make_unique<EngineRig>(options);
  }

  std::shared_ptr<RecordingSink> run(Request request) {
    const auto sink = rig_->submit(std::move(request));
    while (!sink->is_finished()) {
      if (!rig_->engine().step()) rig_->engine().wait_for_tier(std::chrono::milliseconds(5));
    }
    return sink;
  }
  void wait_until_saved() { kvik::wait_until_saved(rig_->engine()); }
  TierCounters tier(size_t i) { return rig_->engine().snapshot().tiers[i]; }

 private:
  std::vector<std::unique_ptr<FolderTier>> tiers_;
  std::unique_ptr<EngineRig> rig_;  // destroyed first
};

TEST(TierStack, writes_to_all_tiers_and_reads_the_nearest_first) {
  const TemporaryFolder own, shared;
  {
    StackRig rig({own.path(), shared.path()});
    rig.run(greedy_request(some_tokens(150), 3));
    rig.wait_until_saved();
    EXPECT_GT(rig.tier(0).pages_written, 0u);
  }
  StackRig rig({own.path(), shared.path()});
  EXPECT_EQ(rig.run(greedy_request(some_tokens(150), 3))->usage().cached_tokens, 149u);
  EXPECT_EQ(rig.tier(0).hit_tokens, 149u);
  EXPECT_EQ(rig.tier(1).pages_read, 0u);
}

TEST(TierStack, pages_of_another_server_are_copied_to_nearer_tiers) {
  const TemporaryFolder own, shared;
  const auto cold = StackRig({shared.path()}).run(logits_request(some_tokens(150)));
  {
    StackRig rig({own.path(), shared.path()});
    const auto warm = rig.run(logits_request(some_tokens(150)));
    EXPECT_EQ(warm->usage().cached_tokens, 149u);
    EXPECT_TRUE(same_bits(warm->logits()[0].second, cold->logits()[0].second));
    EXPECT_EQ(rig.tier(0).hit_tokens, 0u);
    EXPECT_EQ(rig.tier(1).hit_tokens, 149u);
    rig.wait_until_saved();
  }
  StackRig alone({own.path()});
  EXPECT_EQ(alone.run(greedy_request(some_tokens(150), 3))->usage().cached_tokens, 149u);
}

TEST(TierStack, a_fetch_continues_in_the_next_tier) {
  for (const char* model : {"test-llama:f32", "test-gemma3:bf16"}) {
    const TemporaryFolder own, shared;
    const TinyEngineOptions options{.model = {.name = model}, .n_pages = 100};
    StackRig({own.path()}, options).run(greedy_request(some_tokens(100), 1));
    const auto cold = StackRig({shared.path()}, options).run(logits_request(some_tokens(200)));
    StackRig rig({own.path(), shared.path()}, options);
    const auto warm = rig.run(logits_request(some_tokens(200)));
    EXPECT_EQ(warm->usage().cached_tokens, 199u) << model;
    EXPECT_GE(rig.tier(0).hit_tokens, 96u);
    EXPECT_EQ(rig.tier(0).hit_tokens + rig.tier(1).hit_tokens, 199u);
    EXPECT_TRUE(same_bits(warm->logits()[0].second, cold->logits()[0].second));
  }
}

TEST(TierStack, a_failed_tier_does_not_block_the_others) {
  const TemporaryFolder own, shared;
  StackRig({shared.path()}).run(greedy_request(some_tokens(150), 3));
  const std::string gone = own.path() + "/file";
  std::ofstream(gone) << "where a folder should be";
  StackRig rig({gone, shared.path()});
  EXPECT_EQ(rig.run(greedy_request(some_tokens(150), 3))->usage().cached_tokens, 149u);
  rig.run(greedy_request(some_tokens(150, 2), 3));
  rig.wait_until_saved();
  EXPECT_TRUE(rig.tier(0).is_degraded);
  EXPECT_FALSE(rig.tier(1).is_degraded);
  EXPECT_GE(rig.tier(1).pages_written, 4u);
}

}  // namespace
}  // namespace kvik
