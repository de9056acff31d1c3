#include <gtest/gtest.h>

#include <vector>

#include "support/tiny_engine.h"

// Tests the usage that is reported for a prompt that was preempted before its first token.
namespace kvik {
namespace {

// A prompt that advances by one token per step, and an older sequence that eventually needs its
// pages.
struct Preempted {
  explicit Preempted(EngineRig& rig) : older(rig.submit(greedy_request(some_tokens(32, 7), 110))) {
    Request request = greedy_request(some_tokens(150, 8), 4);
    request.max_chunk = 1;
    prompt = rig.submit(std::move(request));
  }
  std::shared_ptr<RecordingSink> older, prompt;
};

constexpr TinyEngineOptions kShort{.n_pages = 8, .max_step_tokens = 256};

TEST(Preemption, own_tokens_do_not_count_as_cached_after_preemption) {
  EngineRig rig(kShort);
  const Preempted both(rig);
  rig.run();
  ASSERT_EQ(rig.engine().snapshot().preemptions, 1u);
  ASSERT_TRUE(both.older->is_finished());
  EXPECT_GT(both.prompt->prompt_progress().front().first, 0u);
  const Usage usage = both.prompt->usage();
  EXPECT_EQ(usage.cached_tokens, 0u);
  EXPECT_EQ(usage.cache.ram_tokens, 0u);
  EXPECT_EQ(usage.cache.miss, MissReason::kNeverSeen);
  EXPECT_EQ(rig.engine().snapshot().cached_tokens, 0u);
  EngineRig alone;
  EXPECT_EQ(both.prompt->tokens(), alone.run(greedy_request(some_tokens(150, 8), 4))->tokens());
}

TEST(Preemption, cached_tokens_are_counted_once) {
  EngineRig rig(kShort);
  auto begun = some_tokens(150, 8);
  begun.resize(41);
  rig.run(greedy_request(begun, 1));
  const Preempted both(rig);
  rig.run();
  ASSERT_EQ(rig.engine().snapshot().preemptions, 1u);
  EXPECT_EQ(both.prompt->usage().cached_tokens, 41u);
  EXPECT_EQ(both.prompt->usage().cache.ram_tokens, 41u);
  EXPECT_EQ(rig.engine().snapshot().cached_tokens, 41u);
}

// While the prompt waits, another request computes more of the same tokens: these count as cached.
TEST(Preemption, tokens_computed_by_others_meanwhile_count) {
  EngineRig rig(kShort);
  const Preempted both(rig);
  while (rig.engine().snapshot().preemptions == 0) rig.engine().step();
  const uint32_t n_own = both.prompt->prompt_progress().back().first;
  ASSERT_LT(n_own, 149u);
  rig.engine().cancel(RequestId{1});
  Request sooner = greedy_request(some_tokens(150, 8), 1);
  sooner.priority = -1;
  const auto other = rig.submit(std::move(sooner));
  rig.run();
  EXPECT_LE(other->usage().cached_tokens, n_own);
  EXPECT_EQ(both.prompt->usage().cached_tokens, 149 - n_own);
}

}  // namespace
}  // namespace kvik
