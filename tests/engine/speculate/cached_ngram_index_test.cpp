#include "engine/speculate/cached_ngram_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/tiny_engine.h"

namespace kvik {
namespace {

constexpr SpeculationOptions kAlways{.mode = SpeculationOptions::Mode::kAlways};

Request scripted(std::vector<TokenId> prompt, const std::vector<TokenId>& answer) {
  Request request = greedy_request(std::move(prompt), static_cast<uint32_t>(answer.size()));
  request.script = answer;
  return request;
}

// A conversation with a different prompt repeats the answer of an earlier one.
TEST(Chains, the_continuation_of_another_answer_is_drafted) {
  EngineRig rig({.n_pages = 128, .speculation = kAlways});
  const auto said = some_tokens(150, 7);
  rig.run(scripted(some_tokens(40, 1), said));
  const uint64_t before = rig.engine().snapshot().steps;
  const auto sink = rig.run(scripted(some_tokens(40, 2), said));
  EXPECT_EQ(sink->tokens(), said);
  EXPECT_GT(sink->usage().accepted_tokens, 100u);
  EXPECT_LT(rig.engine().snapshot().steps - before, 40u);
}

TEST(Chains, nothing_is_drafted_from_pages_of_another_salt) {
  EngineRig rig({.n_pages = 128, .speculation = kAlways});
  const auto said = some_tokens(150, 7);
  Request first = scripted(some_tokens(40, 1), said);
  first.cache_salt = "mine";
  rig.run(first);
  const auto sink = rig.run(scripted(some_tokens(40, 2), said));
  EXPECT_EQ(sink->tokens(), said);
  EXPECT_EQ(sink->usage().drafted_tokens, 0u);
}

// With private pages, what only one tenant has computed is not proposed to others.
TEST(Chains, private_pages_are_drafted_from_only_for_their_tenant) {
  EngineRig rig({.n_pages = 128, .speculation = kAlways, .sharing = Sharing::kTwo});
  const auto said = some_tokens(150, 7);
  const auto ask = [&](const char* tenant, uint32_t seed) {
    Request request = scripted(some_tokens(40, seed), said);
    request.tenant = tenant;
    return rig.run(request)->usage();
  };
  ask("a", 1);
  EXPECT_EQ(ask("b", 2).drafted_tokens, 0u);
  EXPECT_GT(ask("a", 3).accepted_tokens, 100u);
  EXPECT_GT(ask("b", 4).accepted_tokens, 100u) << "by what it computed itself";
}

TEST(Chains, nothing_is_drafted_from_evicted_pages) {
  EngineRig rig({.n_pages = 12, .speculation = kAlways});
  const auto said = some_tokens(150, 7);
  rig.run(scripted(some_tokens(40, 1), said));
  for (uint32_t seed = 3; seed < 6; ++seed) rig.run(greedy_request(some_tokens(350, seed), 1));
  const auto sink = rig.run(scripted(some_tokens(40, 2), said));
  EXPECT_EQ(sink->tokens(), said);
  EXPECT_LT(sink->usage().accepted_tokens, 10u);
}

TEST(Chains, works_with_sliding_windows) {
  EngineRig rig({.model = {.name = "test-gemma3:bf16"}, .n_pages = 128, .speculation = kAlways});
  const auto said = some_tokens(300, 7);
  rig.run(scripted(some_tokens(40, 1), said));
  const auto sink = rig.run(scripted(some_tokens(40, 2), said));
  EXPECT_EQ(sink->tokens(), said);
  EXPECT_GT(sink->usage().accepted_tokens, 200u);
}

}  // namespace
}  // namespace kvik
