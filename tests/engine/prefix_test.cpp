#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/tiny_engine.h"

namespace kvik {
namespace {

// Returns the tokens with all after the first n_kept changed.
std::vector<TokenId> with_other_end(std::vector<TokenId> tokens, uint32_t n_kept) {
  for (size_t i = n_kept; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 256;
  return tokens;
}

// Runs a request that may use cached pages and returns the logits after the prompt's last token.
std::vector<float> last_logits(EngineRig& rig, const std::vector<TokenId>& prompt,
                               Request::Cache cache, uint32_t& cached_tokens) {
  Request request = greedy_request(prompt, 3);
  request.logits = Request::Logits::kLast;
  request.cache = cache;
  const auto sink = rig.run(std::move(request));
  cached_tokens = sink->usage().cached_tokens;
  return sink->logits().front().second;
}

TEST(Prefix, is_found_to_the_token_and_gives_the_same_bits) {
  for (const KvType type : {KvType::kF32, KvType::kBF16}) {
    const auto tokens = some_tokens(100);
    for (const uint32_t n_kept : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 99u}) {
      EngineRig rig({.kv_type = type});
      uint32_t cached = 0;
      last_logits(rig, tokens, Request::Cache::kUse, cached);
      EXPECT_EQ(cached, 0u);
      const auto prompt = with_other_end(tokens, n_kept);
      const auto warm = last_logits(rig, prompt, Request::Cache::kUse, cached);
      EXPECT_EQ(cached, n_kept);
      const auto cold = last_logits(rig, prompt, Request::Cache::kOff, cached);
      EXPECT_EQ(cached, 0u);
      EXPECT_EQ(warm, cold) << n_kept;
    }
  }
}

class Remainder : public testing::TestWithParam<uint32_t> {};

TEST_P(Remainder, every_turn_of_a_conversation_computes_only_new_tokens) {
  EngineRig rig;
  std::vector<TokenId> conversation = some_tokens(33 + GetParam());
  uint32_t n_computed_before = 0;
  for (uint32_t turn = 0; turn < 8; ++turn) {
    const auto sink = rig.run(greedy_request(conversation, 7));
    // The last token of an answer was not computed, so it has no K and V yet.
    EXPECT_EQ(sink->usage().cached_tokens, n_computed_before) << "turn " << turn;
    const auto answer = sink->tokens();
    conversation.insert(conversation.end(), answer.begin(), answer.end());
    n_computed_before = static_cast<uint32_t>(conversation.size()) - 1;
    const auto question = some_tokens(5 + turn);
    conversation.insert(conversation.end(), question.begin(), question.end());
  }
}

// A client may send tokens other than those generated, or branch off in the middle.
TEST_P(Remainder, a_turn_that_diverges_reports_the_position) {
  EngineRig rig;
  const auto prompt = some_tokens(70 + GetParam());
  const auto answer = rig.run(greedy_request(prompt, 12))->tokens();
  auto next = prompt;
  next.insert(next.end(), answer.begin(), answer.end());
  const auto at = static_cast<uint32_t>(next.size()) - 5;
  next[at] = (next[at] + 1) % 256;
  const auto usage = rig.run(greedy_request(next, 3))->usage();
  EXPECT_EQ(usage.cached_tokens, at);
  EXPECT_EQ(usage.cache.ram_tokens, at);
  EXPECT_EQ(usage.cache.miss, MissReason::kDiverged);
  EXPECT_EQ(usage.cache.position, at);
  EXPECT_EQ(usage.cache.expected, answer[7]);
  EXPECT_EQ(usage.cache.got, next[at]);
}

INSTANTIATE_TEST_SUITE_P(by_the_page, Remainder, testing::Range(0u, 32u));

TEST(Prefix, the_reason_of_a_miss_is_reported) {
  EngineRig rig({.n_pages = 12});
  const auto report = [&](const Request& request) { return rig.run(request)->usage().cache; };
  const Request first = greedy_request(some_tokens(100), 4);
  EXPECT_EQ(report(first).miss, MissReason::kNeverSeen);
  EXPECT_EQ(report(first).miss, MissReason::kNone);
  EXPECT_FALSE(report(first).position.has_value());

  auto longer = some_tokens(100);
  longer.resize(99);
  for (uint32_t i = 0; i < 20; ++i) longer.push_back(5 + i);
  EXPECT_EQ(report(greedy_request(longer, 1)).miss, MissReason::kDiverged);
  longer.resize(130, 7);
  EXPECT_EQ(report(greedy_request(longer, 1)).miss, MissReason::kTooShort);

  Request off = first;
  off.cache = Request::Cache::kOff;
  EXPECT_EQ(report(off).miss, MissReason::kCacheOff);

  const Request once = greedy_request(some_tokens(100, 77), 4);
  rig.run(once);
  for (uint32_t i = 0; i < 4; ++i) rig.run(greedy_request(some_tokens(200, 50 + i), 2));
  EXPECT_EQ(report(once).miss, MissReason::kEvicted);
}

// A tenant may learn that another one shares a prefix, but not which token followed it.
TEST(Prefix, a_report_hides_the_token_of_another_tenant) {
  EngineRig rig;
  Request own = greedy_request(some_tokens(60), 2);
  own.tenant = "one";
  rig.run(own);
  Request other = greedy_request(with_other_end(some_tokens(60), 40), 2);
  other.tenant = "two";
  const CacheReport report = rig.run(other)->usage().cache;
  EXPECT_EQ(report.miss, MissReason::kDiverged);
  EXPECT_EQ(report.position, 40u);
  EXPECT_FALSE(report.expected.has_value());
}

TEST(Prefix, choices_of_one_request_share_all_of_its_prompt) {
  EngineRig rig;
  const auto prompt = some_tokens(5 * kPageTokens + 16);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t choice = 0; choice < 8; ++choice) {
    Request request = seeded_request(prompt, 10, 3);
    request.sampling.choice_index = choice;
    sinks.push_back(rig.submit(std::move(request)));
  }
  for (int i = 0; i < 5; ++i) rig.engine().step();
  EXPECT_EQ(rig.pages().sealed, 5u) << "full pages, each once";
  EXPECT_EQ(rig.pages().leased, 8u) << "the page that each choice fills";
  rig.run();
  EXPECT_EQ(rig.engine().snapshot().prompt_tokens, 176u + 7) << "each computes its last token";
  for (uint32_t choice = 0; choice < 8; ++choice) {
    EXPECT_EQ(sinks[choice]->usage().cached_tokens, choice == 0 ? 0 : 175u);
    EngineRig alone;
    Request request = seeded_request(prompt, 10, 3);
    request.sampling.choice_index = choice;
    EXPECT_EQ(sinks[choice]->tokens(), alone.run(request)->tokens());
  }
}

TEST(Prefix, a_partial_page_of_a_running_sequence_is_copied) {
  EngineRig rig;
  const auto prompt = some_tokens(50);
  rig.submit(greedy_request(prompt, 30));
  for (int i = 0; i < 4; ++i) rig.engine().step();
  const auto sink = rig.submit(greedy_request(with_other_end(some_tokens(60), 45), 5));
  rig.run();
  EXPECT_EQ(sink->usage().cached_tokens, 45u);
  EngineRig alone;
  EXPECT_EQ(sink->tokens(),
            alone.run(greedy_request(with_other_end(some_tokens(60), 45), 5))->tokens());
}

TEST(Prefix, a_pinned_prompt_outlives_later_ones) {
  for (const bool is_pinned : {false, true}) {
    EngineRig rig({.n_pages = 12});
    Request request = greedy_request(some_tokens(97), 2);
    if (is_pinned) request.pins = {{96, std::chrono::hours(1)}};
    rig.run(request);
    for (uint32_t i = 0; i < 4; ++i) rig.run(greedy_request(some_tokens(200, 50 + i), 2));
    EXPECT_EQ(rig.run(greedy_request(some_tokens(97), 2))->usage().cached_tokens,
              is_pinned ? 96u : 0u);
    // A pin does not block others: a request that needs all pages gets them.
    EXPECT_EQ(rig.run(greedy_request(some_tokens(380, 99), 2))->tokens().size(), 2u);
  }
}

TEST(Prefix, the_same_prompt_again_computes_its_last_token_alone) {
  EngineRig rig;
  const auto first = rig.run(greedy_request(some_tokens(64), 5));
  const auto again = rig.run(greedy_request(some_tokens(64), 5));
  EXPECT_EQ(again->usage().cached_tokens, 63u);
  EXPECT_EQ(again->tokens(), first->tokens());
}

TEST(Prefix, requests_of_different_salts_share_nothing) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(64), 2);
  request.cache_salt = "one tenant";
  rig.run(request);
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 63u);
  request.cache_salt = "another";
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 0u);
  request.cache_salt = "";
  EXPECT_EQ(rig.run(request)->usage().cached_tokens, 0u);
}

TEST(Prefix, a_request_for_all_logits_computes_all_tokens_and_says_so) {
  EngineRig rig;
  rig.run(greedy_request(some_tokens(64), 2));
  Request request = greedy_request(some_tokens(64), 2);
  request.logits = Request::Logits::kAll;
  const auto sink = rig.run(request);
  EXPECT_EQ(sink->usage().cached_tokens, 0u);
  EXPECT_EQ(sink->logits().size(), 65u);
}

TEST(Prefix, a_request_for_later_logits_finds_the_tokens_before_them) {
  Request request = greedy_request(some_tokens(100), 2);
  request.logits = Request::Logits::kAll;
  const auto all = EngineRig().run(request)->logits();
  EngineRig rig;
  rig.run(greedy_request(some_tokens(100), 2));
  for (const uint32_t first : {99u, 96u, 70u, 33u, 1u}) {
    request.first_logits = first;
    request.max_chunk = first == 70 ? 7 : 512;
    const auto sink = rig.run(request);
    EXPECT_EQ(sink->logits(), decltype(all)(all.begin() + first, all.end())) << first;
    EXPECT_LE(sink->usage().cached_tokens, first);
    EXPECT_GE(sink->usage().cached_tokens, first / kPageTokens * kPageTokens) << first;
  }
}

TEST(Prefix, a_cancelled_prompt_leaves_what_it_computed) {
  EngineRig rig({.max_step_tokens = 10});
  rig.submit(greedy_request(some_tokens(60), 5));
  for (int i = 0; i < 4; ++i) rig.engine().step();
  rig.engine().cancel(rig.last_id());
  EXPECT_EQ(rig.run(greedy_request(some_tokens(60), 5))->usage().cached_tokens, 40u);
}

TEST(Prefix, prompts_that_arrive_together_compute_shared_pages_once) {
  EngineRig rig({.max_step_tokens = 48});
  const auto shared = some_tokens(96);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::vector<TokenId>> prompts;
  for (uint32_t user = 0; user < 5; ++user) {
    prompts.push_back(shared);
    for (uint32_t i = 0; i < 10 + user; ++i) prompts.back().push_back((user * 31 + i) % 256);
    sinks.push_back(rig.submit(greedy_request(prompts.back(), 6)));
  }
  rig.run();
  EXPECT_EQ(sinks[0]->usage().cached_tokens, 0u);
  for (size_t user = 1; user < 5; ++user) EXPECT_EQ(sinks[user]->usage().cached_tokens, 96u);
  EXPECT_EQ(rig.engine().snapshot().prompt_tokens, 96u + 10 + 11 + 12 + 13 + 14);
  for (size_t user = 0; user < 5; ++user) {
    EngineRig alone;
    EXPECT_EQ(sinks[user]->tokens(), alone.run(greedy_request(prompts[user], 6))->tokens());
  }
}

TEST(Prefix, the_next_prompt_computes_if_the_first_ends_early) {
  EngineRig rig({.max_step_tokens = 32});
  rig.submit(greedy_request(some_tokens(120), 4));
  const RequestId first = rig.last_id();
  const auto second = rig.submit(greedy_request(some_tokens(120), 4));
  rig.engine().step();
  rig.engine().cancel(first);
  rig.run();
  EXPECT_EQ(second->usage().cached_tokens, 32u);
  EXPECT_EQ(second->tokens().size(), 4u);
}

TEST(Prefix, prompt_progress_starts_after_the_cached_tokens) {
  EngineRig rig({.max_step_tokens = 20});
  using Progress = std::vector<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(rig.run(greedy_request(some_tokens(50), 3))->prompt_progress(),
            (Progress{{20, 50}, {40, 50}, {50, 50}}));
  EXPECT_EQ(rig.run(greedy_request(some_tokens(50), 3))->prompt_progress(), (Progress{{50, 50}}));
}

TEST(Prefix, without_the_cache_nothing_is_left_behind) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(64), 4);
  request.cache = Request::Cache::kOff;
  rig.run(request);
  EXPECT_EQ(rig.pages().cached, 0u);
}

}  // namespace
}  // namespace kvik
