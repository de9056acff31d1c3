#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/memory_source.h"
#include "support/tiny_engine.h"

// Models in which some or all layers have a sliding window: pages that have left the window are
// released, prefixes are found with only the pages of a window, and answers do not change.
namespace kvik {
namespace {

// Loads a model like Mistral, in which all layers have a window; other test models mix layers.
TinyModel load_windowed(const std::string& name) {
  if (name != "mistral") return load_tiny({.name = name});
  const auto original = make_synthetic("synthetic:test-llama:q8_0");
  CHECK(original.has_value());
  MemorySource source(**original);
  source.set("llama.attention.sliding_window", uint64_t{40});
  return load_tiny(source);
}

class Windows : public testing::TestWithParam<const char*> {
 protected:
  EngineRig rig(TinyEngineOptions options = {}) const {
    return EngineRig(options, load_windowed(GetParam()));
  }
  // Returns the logits after each token of an answer.
  static std::vector<std::vector<float>> rows(const RecordingSink& sink) {
    std::vector<std::vector<float>> rows;
    for (const auto& [position, row] : sink.logits()) rows.push_back(row);
    return rows;
  }
  static Request request(const std::vector<TokenId>& prompt, uint32_t max_tokens) {
    Request request = seeded_request(prompt, max_tokens, 5);
    request.logits = Request::Logits::kLast;
    return request;
  }
};

TEST_P(Windows, cache_chunks_and_batch_change_no_bit_past_the_window) {
  const auto prompt = some_tokens(301);
  EngineRig alone = rig();
  const auto first = alone.run(request(prompt, 70));
  const auto expected = rows(*first);
  ASSERT_EQ(expected.size(), 70u);

  Request uncached = request(prompt, 70);
  uncached.cache = Request::Cache::kOff;
  EngineRig without = rig();
  EXPECT_EQ(rows(*without.run(uncached)), expected);

  const auto again = alone.run(request(prompt, 70));
  EXPECT_EQ(again->usage().cached_tokens, 300u);
  EXPECT_EQ(rows(*again), expected);

  for (const uint32_t max_chunk : {1u, 19u, 64u}) {
    EngineRig chunked = rig({.max_step_tokens = 80});
    Request cut = request(prompt, 70);
    cut.max_chunk = max_chunk;
    const auto sink = chunked.submit(cut);
    for (uint32_t i = 0; i < 3; ++i) chunked.submit(request(some_tokens(60 + 50 * i, i + 9), 80));
    chunked.run();
    EXPECT_EQ(rows(*sink), expected) << max_chunk;
  }
}

TEST_P(Windows, a_branch_inside_a_conversation_changes_no_bit) {
  EngineRig warm = rig();
  auto prompt = some_tokens(250);
  warm.run(request(prompt, 20));
  for (const uint32_t n_kept : {249u, 200u, 161u, 160u, 159u, 40u, 3u}) {
    auto branch = prompt;
    branch.resize(n_kept);
    for (uint32_t i = 0; i < 30; ++i) branch.push_back((prompt[i] + n_kept + i) % 250 + 4);
    const auto found = warm.run(request(branch, 10));
    EngineRig cold = rig();
    EXPECT_EQ(rows(*found), rows(*cold.run(request(branch, 10)))) << n_kept;
    EXPECT_GE(found->usage().cached_tokens, n_kept);
  }
}

TEST_P(Windows, pages_are_released_as_they_leave_the_window) {
  EngineRig engine = rig({.max_step_tokens = 32, .speculation = kNoSpeculation});
  engine.submit(greedy_request(some_tokens(700), 100));
  uint32_t n_steps = 0;
  bool has_window = false;
  while (engine.engine().step()) {
    const EngineSnapshot now = engine.engine().snapshot();
    for (uint32_t g = 0; g < now.n_groups; ++g) {
      const auto& [window, pages] = now.groups[g];
      if (window == 0) continue;
      has_window = true;
      ASSERT_LE(pages.leased + pages.sealed, window / kPageTokens + 2) << "step " << n_steps;
    }
    ++n_steps;
  }
  EXPECT_TRUE(has_window);
  EXPECT_GT(n_steps, 100u);
}

TEST_P(Windows, every_turn_past_the_window_computes_only_new_tokens) {
  EngineRig engine = rig({.n_pages = 200});
  std::vector<TokenId> conversation = some_tokens(60);
  uint32_t n_before = 0;
  for (uint32_t turn = 0; turn < 8; ++turn) {
    const auto sink = engine.run(greedy_request(conversation, 23));
    EXPECT_EQ(sink->usage().cached_tokens, n_before) << "turn " << turn;
    const auto answer = sink->tokens();
    conversation.insert(conversation.end(), answer.begin(), answer.end());
    n_before = static_cast<uint32_t>(conversation.size()) - 1;
    const auto question = some_tokens(15 + turn, turn + 40);
    conversation.insert(conversation.end(), question.begin(), question.end());
  }
}

TEST_P(Windows, a_long_conversation_needs_only_its_window) {
  // The budget of 12 pages in each group, if no group released any.
  EngineRig small = rig({.n_pages = 12, .n_ctx_max = 900, .max_step_tokens = 64});
  const uint64_t n_max = small.engine().limits().n_ctx_max;
  EXPECT_GT(n_max, 12 * kPageTokens);
  const auto prompt = some_tokens(static_cast<uint32_t>(n_max) - 20);
  EngineRig large = rig();
  EXPECT_EQ(rows(*small.run(request(prompt, 20))), rows(*large.run(request(prompt, 20))));
}

INSTANTIATE_TEST_SUITE_P(all, Windows,
                         testing::Values("test-gemma2:q4_0", "test-gemma3:bf16", "mistral"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace kvik
