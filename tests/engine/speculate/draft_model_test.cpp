#include "engine/speculate/draft_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/tiny_engine.h"

namespace kvik {
namespace {

constexpr SpeculationOptions kFour{.mode = SpeculationOptions::Mode::kAlways, .n_max = 4};

std::vector<Request> some_requests() {
  std::vector<Request> all;
  for (uint32_t i = 0; i < 4; ++i) {
    all.push_back(seeded_request(some_tokens(20 + 13 * i, i + 1), 60, i));
    if (i == 0) all.back().sampling.temperature = 0;
    if (i == 2) all.back().sampling.repetition_penalty = 1.2f;
    all.back().n_logprobs = 2;
  }
  return all;
}

std::vector<std::vector<TokenId>> answers(EngineRig& rig, const std::vector<Request>& all) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : all) sinks.push_back(rig.submit(request));
  rig.run();
  std::vector<std::vector<TokenId>> tokens;
  for (const auto& sink : sinks) tokens.push_back(sink->tokens());
  return tokens;
}

// The same weights yield the same tokens at any temperature, because the random draws are the same.
TEST(DraftModel, drafts_of_an_equal_model_are_accepted_at_any_temperature) {
  EngineRig plain({.n_pages = 128, .speculation = kNoSpeculation});
  EngineRig rig({.n_pages = 256, .speculation = kFour, .draft = "test-llama:f32"});
  const auto all = some_requests();
  EXPECT_EQ(answers(rig, all), answers(plain, all));
  const SpeculationCounters counters = rig.engine().snapshot().speculation;
  EXPECT_GT(counters.accepted_tokens, 4 * 60 / 2u);
  EXPECT_GT(counters.accepted_tokens, counters.drafted_tokens * 9 / 10);
  EXPECT_LT(rig.engine().snapshot().steps, plain.engine().snapshot().steps / 2);
}

// The draft model has coarser weights, so some of its tokens are rejected.
TEST(DraftModel, rejected_drafts_do_not_change_the_answer) {
  EngineRig plain({.n_pages = 128, .speculation = kNoSpeculation});
  EngineRig rig({.n_pages = 256, .speculation = kFour, .draft = "test-llama:q2_k"});
  const auto all = some_requests();
  EXPECT_EQ(answers(rig, all), answers(plain, all));
  const SpeculationCounters counters = rig.engine().snapshot().speculation;
  EXPECT_LT(counters.accepted_tokens, counters.drafted_tokens);
}

TEST(DraftModel, preemption_and_short_pages_change_nothing) {
  EngineRig plain({.n_pages = 128, .speculation = kNoSpeculation});
  EngineRig rig({.n_pages = 16, .speculation = kFour, .draft = "test-llama:f32"});
  const auto all = some_requests();
  EXPECT_EQ(answers(rig, all), answers(plain, all));
  EXPECT_GT(rig.engine().snapshot().preemptions, 0u);
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST(DraftModel, its_pages_are_of_the_same_budget) {
  EngineRig rig({.n_pages = 128, .speculation = kFour, .draft = "test-llama:f32"});
  const EngineSnapshot snapshot = rig.engine().snapshot();
  const uint64_t draft_bytes = snapshot.kv_bytes[static_cast<size_t>(MemoryKind::kDraftPages)];
  EXPECT_EQ(draft_bytes, 64 * snapshot.page_bytes) << "half: the models are of one size";
  EXPECT_EQ(snapshot.pages.total(), 64u);
}

TEST(DraftModel, automatic_speculation_does_not_change_the_answer) {
  EngineRig plain({.n_pages = 128, .speculation = kNoSpeculation});
  EngineRig rig({.n_pages = 256, .draft = "test-llama:f32"});
  const auto all = some_requests();
  EXPECT_EQ(answers(rig, all), answers(plain, all));
}

}  // namespace
}  // namespace kvik
