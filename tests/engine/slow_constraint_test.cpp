#include "support/slow_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/tiny_engine.h"

// Constraints that take long: only their own sequence waits for them.
namespace kvik {
namespace {

using testing::ElementsAre;
using Gate = SlowConstraint::Gate;
using Fault = SlowConstraint::Fault;

Request with(Request request, SlowConstraint::Options options) {
  request.constraint = std::make_shared<SlowConstraint>(std::move(options));
  return request;
}

Request drawn(uint32_t i, uint32_t n_tokens = 20) {
  return seeded_request(some_tokens(10 + i, i + 1), n_tokens, i);
}

// Runs steps while the gate is closed. Some of them only wait.
void step(EngineRig& rig, int n) {
  for (int i = 0; i < n; ++i) rig.engine().step();
}

TEST(SlowConstraint, a_slow_mask_does_not_delay_other_sequences) {
  EngineRig rig;
  const auto gate = std::make_shared<Gate>();
  const auto slow = rig.submit(with(drawn(1), {.gate = gate, .slow_mask_at = 5}));
  const auto other = rig.submit(drawn(2, 40));
  const auto constrained = rig.submit(with(drawn(3, 40), {}));
  step(rig, 20);
  gate->wait_for_one();
  step(rig, 100);
  EXPECT_EQ(other->tokens().size(), 40u);
  EXPECT_EQ(constrained->tokens().size(), 40u);
  EXPECT_EQ(slow->tokens().size(), 5u) << "it sits out";
  EXPECT_TRUE(slow->finishes().empty());
  gate->open();
  rig.run();
  EXPECT_EQ(slow->tokens().size(), 20u);
  EXPECT_THAT(slow->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(SlowConstraint, the_time_of_a_mask_does_not_change_the_answer) {
  for (const float temperature : {0.0f, 1.0f}) {
    const auto request = [&](uint32_t i, uint32_t slow_every) {
      Request one = with(drawn(i, 30), {.form = {.may_end_at = 20}, .slow_every = slow_every});
      one.sampling.temperature = temperature;
      one.n_logprobs = 2;
      one.logits = Request::Logits::kLast;
      one.sampling.frequency_penalty = 0.3f;
      return one;
    };
    EngineRig crowded({.n_pages = 12});
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (uint32_t i = 0; i < 6; ++i) sinks.push_back(crowded.submit(request(i, 1 + i % 3)));
    crowded.run();
    for (uint32_t i = 0; i < 6; ++i) {
      EngineRig alone;
      const auto quick = alone.run(request(i, 0));
      EXPECT_EQ(sinks[i]->tokens(), quick->tokens()) << i;
      EXPECT_EQ(sinks[i]->finishes(), quick->finishes()) << i;
      // The slow run may need another row to find that nothing follows the last token.
      auto logits = sinks[i]->logits();
      logits.resize(std::min(logits.size(), quick->logits().size()));
      EXPECT_TRUE(logits == quick->logits()) << i;
    }
  }
}

TEST(SlowConstraint, a_slow_constraint_does_not_change_the_finish_reason) {
  for (const uint32_t must_end_at : {5u, 6u, 7u}) {
    const auto request = [&](uint32_t slow_every) {
      return with(drawn(1, 6), {.form = {.may_end_at = 2, .must_end_at = must_end_at},
                                .slow_every = slow_every});
    };
    EngineRig quick_rig, slow_rig;
    const auto quick = quick_rig.run(request(0));
    const auto slow = slow_rig.run(request(1));
    EXPECT_EQ(slow->tokens(), quick->tokens()) << must_end_at;
    EXPECT_EQ(slow->finishes(), quick->finishes()) << must_end_at;
  }
}

TEST(SlowConstraint, no_row_is_computed_again_for_a_late_mask) {
  EngineRig quick({.speculation = kNoSpeculation}), late({.speculation = kNoSpeculation});
  const auto expected = quick.run(with(drawn(1, 12), {}));
  const auto sink = late.run(with(drawn(1, 12), {.slow_every = 1}));
  EXPECT_EQ(sink->tokens(), expected->tokens());
  // One more step may be needed to find that nothing follows the last token.
  EXPECT_LE(late.engine().snapshot().steps, quick.engine().snapshot().steps + 1);
}

TEST(SlowConstraint, a_sequence_that_waits_can_be_cancelled) {
  EngineRig rig;
  const auto gate = std::make_shared<Gate>();
  const auto sink = rig.submit(with(drawn(1), {.gate = gate, .slow_mask_at = 3}));
  step(rig, 20);
  gate->wait_for_one();
  rig.engine().cancel_all();
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kCancelled));
  EXPECT_FALSE(rig.engine().step()) << "nothing is left to do";
  gate->open();
}

TEST(SlowConstraint, an_exhausted_grammar_ends_its_answer_alone) {
  for (const bool at_advance : {false, true}) {
    EngineRig rig;
    SlowConstraint::Options options{.fault = Fault::kExhausted};
    (at_advance ? options.slow_advance_at : options.slow_mask_at) = 4;
    const auto sink = rig.submit(with(drawn(1), options));
    const auto beside = rig.submit(drawn(2));
    rig.run();
    EXPECT_EQ(sink->tokens().size(), 4u);
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kExhausted));
    EXPECT_EQ(beside->tokens().size(), 20u);
    EXPECT_EQ(rig.engine().snapshot().n_finished(FinishReason::kExhausted), 1u);
  }
}

TEST(SlowConstraint, no_memory_for_a_mask_fails_its_request_alone) {
  for (const bool at_advance : {false, true}) {
    EngineRig rig;
    SlowConstraint::Options options{.fault = Fault::kNoMemory};
    (at_advance ? options.slow_advance_at : options.slow_mask_at) = 4;
    const auto sink = rig.submit(with(drawn(1), options));
    const auto beside = rig.submit(drawn(2));
    rig.run();
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kFailed));
    EXPECT_EQ(beside->tokens().size(), 20u);
  }
}

TEST(SlowConstraint, tenants_with_budget_left_come_before_one_that_has_none) {
  constexpr ProcessorBudget::Rule kRule = MaskMaker::kBudget;
  ProcessorBudget budget(kRule);
  const TimePoint begin{};
  EXPECT_EQ(budget.left("a", begin), kRule.burst);
  budget.charge("a", kRule.burst + std::chrono::milliseconds(50), begin);
  EXPECT_LT(budget.left("a", begin), Duration{});
  EXPECT_EQ(budget.left("b", begin), kRule.burst);
  EXPECT_GT(budget.left("a", begin + std::chrono::milliseconds(250)), Duration{});
  EXPECT_EQ(budget.left("a", begin + std::chrono::seconds(60)), kRule.burst);
}

}  // namespace
}  // namespace kvik
