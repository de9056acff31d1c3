#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"
#include "support/tiny_engine.h"
#include "tier/disk_tier.h"

// Pages that are loaded from a slow tier while their prompt is computed.
namespace kvik {
namespace {

using std::chrono::milliseconds;

// A tier whose pages take a while, and some of which fail.
class SlowPages final : public Tier {
 public:
  explicit SlowPages(Tier& tier) : tier_(tier) {}
  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
          size_t n_bytes) override {
    std::this_thread::sleep_for(milliseconds(10));
    const Get got = tier_.get(wanted, reader, slot, n_bytes);
    if (got != Get::kFound) return got;
    return result ? result(++n_found_) : got;
  }
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override {
    return tier_.children(parent, group, reader, limit);
  }
  Result<void> put(std::span<Put> pages) override {
    n_put_ += pages.size();
    return tier_.put(pages);
  }
  size_t head_bytes() const override { return tier_.head_bytes(); }
  size_t alignment() const override { return tier_.alignment(); }
  size_t slot_bytes(size_t n_page_bytes) const override { return tier_.slot_bytes(n_page_bytes); }
  Result<void> recover() override { return tier_.recover(); }
  Result<void> tidy_up() override { return tier_.tidy_up(); }
  TierSize size() const override { return tier_.size(); }

  size_t n_put() const { return n_put_; }
  std::function<Get(uint32_t)> result;  // result of the n-th page found; set before the first step

 private:
  Tier& tier_;
  uint32_t n_found_ = 0;
  std::atomic<size_t> n_put_ = 0;
};

constexpr uint32_t kPages = 150;
constexpr uint32_t kPrompt = 1600;  // tokens; a trial reads some of the first pages

// Steps take longer than a page. Their rows are so few that the cost of a prompt stays unknown, and
// thus the time that the tests expect.
class LoadRig {
 public:
  explicit LoadRig(const TemporaryFolder& folder, TinyEngineOptions options = {}) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 256 << 20});
    CHECK(tier.has_value());
    tier_ = std::move(*tier);
    slow_ = std::make_unique<SlowPages>(*tier_);
    options.n_pages = kPages;
    options.max_step_tokens = 64;
    options.tiers = {{TierKind::kDisk, slow_.get()}};
    rig_ = std::make_unique<EngineRig>(options);
  }

  std::shared_ptr<RecordingSink> run(Request request) {
    const auto sink = rig_->submit(std::move(request));
    while (!sink->is_finished()) step();
    return sink;
  }
  void step() {
    if (!rig_->engine().step()) rig_->engine().wait_for_tier(milliseconds(5));
    std::this_thread::sleep_for(milliseconds(15));
  }
  EngineRig& rig() { return *rig_; }
  SlowPages& tier() { return *slow_; }
  TierCounters counters() { return rig_->engine().snapshot().tiers[0]; }

 private:
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<SlowPages> slow_;
  std::unique_ptr<EngineRig> rig_;  // destroyed first
};

Request prompt_of(uint32_t n_tokens = kPrompt) {
  Request request = greedy_request(some_tokens(n_tokens), 4);
  request.logits = Request::Logits::kLast;
  return request;
}

Request of_tenant(const char* tenant, Request request) {
  request.tenant = tenant;
  return request;
}

// Stores the pages of a prompt and returns its answer.
std::shared_ptr<RecordingSink> store(const TemporaryFolder& folder, TinyEngineOptions options,
                                     uint32_t n_tokens = kPrompt, const char* tenant = "") {
  auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 256 << 20});
  CHECK(tier.has_value());
  options.n_pages = kPages;
  options.tiers = {{TierKind::kDisk, tier->get()}};
  EngineRig rig(options);
  const auto sink = rig.submit(of_tenant(tenant, prompt_of(n_tokens)));
  while (!sink->is_finished()) {
    if (!rig.engine().step()) rig.engine().wait_for_tier(milliseconds(5));
  }
  return sink;
}

void expect_same_answer(const RecordingSink& answer, const RecordingSink& expected) {
  EXPECT_EQ(answer.tokens(), expected.tokens());
  ASSERT_EQ(answer.logits().size(), expected.logits().size());
  for (size_t i = 0; i < expected.logits().size(); ++i) {
    EXPECT_TRUE(same_bits(answer.logits()[i].second, expected.logits()[i].second));
  }
}

TEST(PageLoad, a_prompt_is_computed_and_loaded_at_once_with_the_same_bits) {
  for (const KvType type : kAllKvTypes) {
    const TemporaryFolder folder;
    const TinyEngineOptions options{.kv_type = type};
    const auto cold = store(folder, options);
    LoadRig rig(folder, options);
    const auto warm = rig.run(prompt_of());
    expect_same_answer(*warm, *cold);
    const Usage& usage = warm->usage();
    EXPECT_GT(usage.cached_tokens, kPrompt / 4) << name_of(type);
    EXPECT_LT(usage.cached_tokens, kPrompt - 64) << name_of(type);
    EXPECT_EQ(usage.cache.tier_tokens, usage.cached_tokens);
    EXPECT_EQ(usage.cache.miss, MissReason::kComputedWhileLoading);
    EXPECT_EQ(rig.counters().hit_tokens, usage.cached_tokens);
    EXPECT_EQ(rig.rig().pages().leased, 0u);
  }
}

TEST(PageLoad, pages_after_the_prefix_of_the_tier_are_computed) {
  const TemporaryFolder folder;
  store(folder, {}, 1200);
  const auto cold = EngineRig({.n_pages = kPages}).run(prompt_of());
  LoadRig rig(folder);
  const auto warm = rig.run(prompt_of());
  expect_same_answer(*warm, *cold);
  EXPECT_GT(warm->usage().cached_tokens, 300u);
}

TEST(PageLoad, a_loaded_page_is_not_written_again_and_can_be_hit) {
  const TemporaryFolder folder;
  store(folder, {});
  LoadRig rig(folder);
  const uint32_t n_pages = rig.run(prompt_of())->usage().cached_tokens / kPageTokens;
  EXPECT_EQ(rig.run(prompt_of())->usage().cached_tokens, kPrompt - 1);
  const uint32_t n_computed = kPrompt / kPageTokens - n_pages;
  EXPECT_LE(rig.counters().pages_written, n_computed + 1);  // and the page of the answer
}

TEST(PageLoad, damaged_pages_are_computed) {
  const TemporaryFolder folder;
  const auto cold = store(folder, {});
  LoadRig rig(folder);
  rig.tier().result = [](uint32_t n) {
    return n > 10 && n % 3 == 0 ? Tier::Get::kDamaged : Tier::Get::kFound;
  };
  const auto warm = rig.run(prompt_of());
  expect_same_answer(*warm, *cold);
  EXPECT_GT(warm->usage().cached_tokens, 256u);
}

TEST(PageLoad, a_tier_that_fails_leaves_the_rest_to_be_computed) {
  const TemporaryFolder folder;
  const auto cold = store(folder, {});
  LoadRig rig(folder);
  rig.tier().result = [](uint32_t n) { return n > 15 ? Tier::Get::kFailed : Tier::Get::kFound; };
  const auto warm = rig.run(prompt_of());
  expect_same_answer(*warm, *cold);
}

TEST(PageLoad, a_cancel_leaves_no_lease) {
  const TemporaryFolder folder;
  store(folder, {});
  LoadRig rig(folder);
  for (int n_steps = 0; n_steps < 24; n_steps += 3) {
    const auto sink = rig.rig().submit(prompt_of());
    for (int i = 0; i < n_steps; ++i) rig.step();
    rig.rig().engine().cancel(rig.rig().last_id());
    EXPECT_TRUE(sink->is_finished());
  }
  EXPECT_EQ(rig.rig().pages().leased + rig.rig().pages().sealed, 0u);
  const auto cold = EngineRig({.n_pages = kPages}).run(prompt_of());
  expect_same_answer(*rig.run(prompt_of()), *cold);
}

TEST(PageLoad, pages_of_another_tenant_are_not_loaded) {
  const TemporaryFolder folder;
  const TinyEngineOptions options{.sharing = Sharing::kTwo};
  const auto cold = store(folder, options, kPrompt, "ann");
  LoadRig rig(folder, options);
  const auto learned = rig.run(of_tenant("ann", prompt_of()));  // now the tier's speed is known
  EXPECT_GT(learned->usage().cached_tokens, 0u);
  const auto other = rig.run(of_tenant("bob", prompt_of()));
  expect_same_answer(*other, *cold);
  EXPECT_EQ(other->usage().cached_tokens, 0u);
}

// Another answer takes the free page and later one of the prompt's, which is in the middle of its
// loaded and computed pages then.
TEST(PageLoad, a_preempted_prompt_loads_again_and_counts_no_token_twice) {
  const TemporaryFolder folder;
  const auto cold = store(folder, {});
  LoadRig rig(folder, {.n_ctx_max = 8192, .speculation = kNoSpeculation});
  rig.tier().result = [](uint32_t n) {
    return n > 10 && n % 2 == 0 ? Tier::Get::kDamaged : Tier::Get::kFound;
  };
  const uint32_t n_others = rig.rig().pages().total() - kPrompt / kPageTokens - 1;
  const auto other =
      rig.rig().submit(greedy_request(some_tokens(n_others * kPageTokens - 28, 7), 70));
  while (other->tokens().empty()) rig.step();
  Request slow = prompt_of();
  slow.max_chunk = 8;
  const auto warm = rig.run(slow);
  EXPECT_EQ(rig.rig().engine().snapshot().preemptions, 1u);
  EXPECT_TRUE(other->is_finished());
  expect_same_answer(*warm, *cold);
  const Usage& usage = warm->usage();
  EXPECT_LT(usage.cached_tokens, kPrompt);
  EXPECT_EQ(usage.cache.ram_tokens + usage.cache.tier_tokens, usage.cached_tokens);
}

TEST(PageLoad, two_prompts_load_in_turns) {
  const TemporaryFolder folder;
  const auto cold = store(folder, {});
  LoadRig rig(folder);
  auto other = prompt_of();
  other.prompt.back() ^= 1;
  const auto one = rig.rig().submit(prompt_of());
  const auto two = rig.rig().submit(other);
  while (!one->is_finished() || !two->is_finished()) rig.step();
  expect_same_answer(*one, *cold);
  expect_same_answer(*two, *EngineRig({.n_pages = kPages}).run(other));
}

}  // namespace
}  // namespace kvik
