#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/guessing_drafter.h"
#include "support/other_samplers.h"
#include "support/tiny_engine.h"

// Speculation changes only the number of steps: tokens, log probabilities, logits and the contents
// of pages are those of an engine without it.
namespace kvik {
namespace {

struct Outcome {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<std::pair<uint32_t, std::vector<float>>> logits;
  std::vector<FinishReason> finishes;
  Usage usage;

  explicit Outcome(const RecordingSink& sink)
      : tokens(sink.tokens()),
        logits(sink.logits()),
        finishes(sink.finishes()),
        usage(sink.usage()) {
    for (const TokenEvent& event : sink.events()) {
      if (event.chosen) logprobs.push_back(event.chosen->logprob);
      for (const TokenLogprob& top : event.top) logprobs.push_back(top.logprob);
    }
  }
};

void expect_same(const Outcome& expected, const Outcome& got) {
  EXPECT_EQ(expected.tokens, got.tokens);
  EXPECT_EQ(expected.finishes, got.finishes);
  EXPECT_TRUE(same_bits(expected.logprobs, got.logprobs));
  EXPECT_EQ(expected.usage.completion_tokens, got.usage.completion_tokens);
  ASSERT_EQ(expected.logits.size(), got.logits.size());
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_EQ(expected.logits[i].first, got.logits[i].first);
    EXPECT_TRUE(same_bits(expected.logits[i].second, got.logits[i].second)) << "position " << i;
  }
}

// Returns requests with all kinds of sampling. Their vocabulary is small and the answers are long,
// so suffixes repeat; ScriptedDrafter supplies further draft tokens.
std::vector<Request> some_requests(uint32_t n) {
  std::vector<Request> all;
  for (uint32_t i = 0; i < n; ++i) {
    Request request = seeded_request(some_tokens(9 + 7 * i, i % 4 + 1), 60 + i, i);
    SamplingParams& p = request.sampling;
    if (i % 4 == 0) p.temperature = 0;
    if (i % 4 == 1) p.temperature = 0.7f;
    if (i % 4 == 2) p.temperature = 1.5f;
    if (i % 4 == 3) p.top_p = 0.5f;
    if (i % 3 == 1) p.repetition_penalty = 1.3f;
    if (i % 3 == 2) p.presence_penalty = p.frequency_penalty = 0.4f;
    if (i % 5 == 3) p.logit_bias = {{7, 4.0f}, {9, -3.0f}};
    p.choice_index = i % 3;
    request.n_logprobs = i % 4;
    request.logits = i % 2 == 0 ? Request::Logits::kAll : Request::Logits::kLast;
    if (i % 3 == 0) {
      for (TokenId id = 5 * i; id < 5 * i + 6; ++id) request.stop_tokens.push_back(id);
      request.min_tokens = 25 + 11 * (i % 4);
    }
    all.push_back(std::move(request));
  }
  return all;
}

struct Case {
  const char* model;
  KvType kv_type;
  // Too few pages for some requests together; slots take a part of the budget.
  uint32_t n_scarce = 6;
};

class Speculation : public testing::TestWithParam<Case> {
 protected:
  TinyEngineOptions options(SpeculationOptions speculation, uint32_t n_pages = 256) const {
    return {.model = {.name = GetParam().model},
            .n_pages = n_pages,
            .kv_type = GetParam().kv_type,
            .speculation = speculation};
  }

  static std::vector<Outcome> run_all(EngineRig& rig, const std::vector<Request>& all,
                                      RecordingSink::OnToken on_token = nullptr) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : all) {
      sinks.push_back(rig.submit(request, on_token));
      rig.engine().step();
    }
    rig.run();
    std::vector<Outcome> outcomes;
    for (const auto& sink : sinks) outcomes.emplace_back(*sink);
    EXPECT_EQ(rig.pages().leased, 0u);
    return outcomes;
  }

  // Returns the results of an engine without speculation.
  std::vector<Outcome> plainly(const std::vector<Request>& all,
                               RecordingSink::OnToken on_token = nullptr) const {
    EngineRig rig(options(kNoSpeculation));
    return run_all(rig, all, on_token);
  }

  static void expect_all_same(const std::vector<Outcome>& expected,
                              const std::vector<Outcome>& got) {
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      expect_same(expected[i], got[i]);
    }
  }

  static ScriptedDrafter drafter_of(EngineRig&, const std::vector<Request>& all,
                                    const std::vector<Outcome>& answers) {
    ScriptedDrafter drafter(256, 1);
    for (size_t i = 0; i < all.size(); ++i) {
      auto tokens = all[i].prompt;
      tokens.insert(tokens.end(), answers[i].tokens.begin(), answers[i].tokens.end());
      drafter.know(std::move(tokens));
    }
    return drafter;
  }

  // Runs n requests together, with draft tokens that are right for a while.
  void check_batch_of(uint32_t n, uint32_t n_pages) const {
    const auto all = some_requests(n);
    const auto expected = plainly(all);
    EngineRig plain(options(kNoSpeculation));
    ScriptedDrafter drafter = drafter_of(plain, all, expected);
    EngineRig rig(
        options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}, n_pages));
    expect_all_same(expected, run_all(rig, all));
    const EngineSnapshot snapshot = rig.engine().snapshot();
    EXPECT_GT(snapshot.speculation.accepted_tokens, 5u * n);
    EXPECT_GT(snapshot.speculation.drafted_tokens, snapshot.speculation.accepted_tokens);
  }
};

TEST_P(Speculation, one_user_gets_the_same_answer) { check_batch_of(1, 64); }
TEST_P(Speculation, four_users_get_the_same_answers) { check_batch_of(4, 64); }
TEST_P(Speculation, sixteen_users_get_the_same_answers) { check_batch_of(16, 256); }

TEST_P(Speculation, preemption_in_the_middle_of_drafts_changes_nothing) {
  const auto all = some_requests(GetParam().n_scarce < 7 ? 6 : 9);  // later requests are longer
  const auto expected = plainly(all);
  EngineRig plain(options(kNoSpeculation));
  ScriptedDrafter drafter = drafter_of(plain, all, expected);
  EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter},
                        GetParam().n_scarce));
  expect_all_same(expected, run_all(rig, all));
  // With large states or open pages only a few sequences run at the same time, so there is no
  // preemption. open_pages_test.cpp tests the preemption of sequences with open pages.
  if (GetParam().n_scarce < 20) {
    EXPECT_GT(rig.engine().snapshot().preemptions, 0u);
  }
  EXPECT_GT(rig.engine().snapshot().speculation.accepted_tokens, 0u);
}

// Penalties of earlier tokens, Mirostat's state and XTC's draw do not depend on drafts.
TEST_P(Speculation, other_samplers_give_the_same_answers) {
  auto all = some_requests(kOtherSamplers);
  for (uint32_t i = 0; i < all.size(); ++i) add_other_sampler(all[i].sampling, i);
  const auto expected = plainly(all);
  EngineRig plain(options(kNoSpeculation));
  ScriptedDrafter drafter = drafter_of(plain, all, expected);
  EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}, 64));
  expect_all_same(expected, run_all(rig, all));
  EXPECT_GT(rig.engine().snapshot().speculation.accepted_tokens, 20u);
}

// The number of draft tokens depends on measured costs and acceptance rates.
TEST_P(Speculation, auto_changes_nothing) {
  const auto all = some_requests(4);
  EngineRig rig(options({}));
  expect_all_same(plainly(all), run_all(rig, all));
}

TEST_P(Speculation, can_be_disabled_per_request) {
  auto all = some_requests(2);
  for (Request& request : all) request.speculate = Request::Speculate::kOff;
  const auto expected = plainly(all);
  EngineRig plain(options(kNoSpeculation));
  ScriptedDrafter drafter = drafter_of(plain, all, expected);
  EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}));
  expect_all_same(expected, run_all(rig, all));
  EXPECT_EQ(rig.engine().snapshot().speculation.drafted_tokens, 0u);
}

// The receiver of tokens finds stop strings and may end the answer in the middle of the accepted
// tokens.
TEST_P(Speculation, an_answer_ended_by_its_sink_leaves_the_same_pages) {
  Request request = some_requests(1)[0];
  request.stop_tokens.clear();
  const std::vector<Request> all = {request};
  const auto whole = plainly(all);
  ASSERT_EQ(whole[0].tokens.size(), 60u);
  for (uint32_t n_read = 1; n_read < 50; n_read += 6) {
    const auto stop_after = [n_read](uint32_t& n) {
      return [&n, n_read](const TokenEvent&) {
        return ++n == n_read ? EventSink::Verdict::kStop : EventSink::Verdict::kContinue;
      };
    };
    uint32_t n_plain = 0, n_drafted = 0;
    EngineRig plain(options(kNoSpeculation));
    const auto expected = run_all(plain, all, stop_after(n_plain));
    ScriptedDrafter drafter = drafter_of(plain, all, whole);
    EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}));
    expect_all_same(expected, run_all(rig, all, stop_after(n_drafted)));
    EXPECT_EQ(n_plain, n_drafted);
    // A following request finds exactly the same number of cached tokens.
    Request next = request;
    next.prompt.insert(next.prompt.end(), whole[0].tokens.begin(), whole[0].tokens.end());
    next.max_tokens = 1;
    const auto a = plain.run(next);
    const auto b = rig.run(next);
    EXPECT_EQ(a->usage().cached_tokens, b->usage().cached_tokens) << n_read;
    EXPECT_EQ(a->tokens(), b->tokens());
  }
}

TEST_P(Speculation, speculation_leaves_the_same_cached_prefixes) {
  const auto all = some_requests(4);
  EngineRig plain(options(kNoSpeculation));
  const auto expected = run_all(plain, all);
  ScriptedDrafter drafter = drafter_of(plain, all, expected);
  EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}));
  expect_all_same(expected, run_all(rig, all));
  const PageCounts a = plain.pages(), b = rig.pages();
  EXPECT_EQ(a.cached, b.cached);
  EXPECT_EQ(a.free, b.free);
  for (size_t i = 0; i < all.size(); ++i) {
    Request next = all[i];
    next.logits = Request::Logits::kLast;
    next.prompt.insert(next.prompt.end(), expected[i].tokens.begin(), expected[i].tokens.end());
    next.prompt.push_back(3);
    const Outcome before(*plain.run(next)), after(*rig.run(next));
    expect_same(before, after);
    EXPECT_EQ(before.usage.cached_tokens, after.usage.cached_tokens);
  }
}

TEST_P(Speculation, a_cancel_in_the_middle_leaves_no_lease) {
  const auto all = some_requests(3);
  const auto expected = plainly(all);
  EngineRig plain(options(kNoSpeculation));
  ScriptedDrafter drafter = drafter_of(plain, all, expected);
  EngineRig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : all) sinks.push_back(rig.submit(request));
  for (int i = 0; i < 6; ++i) rig.engine().step();
  rig.engine().cancel(RequestId{2});
  rig.run();
  EXPECT_EQ(rig.pages().leased, 0u);
  EXPECT_EQ(sinks[0]->tokens(), expected[0].tokens);
  EXPECT_EQ(sinks[2]->tokens(), expected[2].tokens);
  const auto cut = sinks[1]->tokens();
  EXPECT_TRUE(std::equal(cut.begin(), cut.end(), expected[1].tokens.begin()));
}

INSTANTIATE_TEST_SUITE_P(
    all, Speculation,
    testing::Values(
        Case{"test-llama:q4_0", KvType::kInt8, 20}, Case{"test-llama:q8_0", KvType::kInt4, 20},
        Case{"test-qwen3:f32", KvType::kF32}, Case{"test-gemma2:q4_0", KvType::kInt8, 20},
        Case{"test-gemma3:bf16", KvType::kBF16}, Case{"test-qwen2:q4_0", KvType::kInt8Int4, 20},
        Case{"test-qwen3moe:q4_0", KvType::kInt8, 20}, Case{"test-qwen35:q4_0", KvType::kInt8, 60},
        // KV types without open pages, so that there is preemption.
        Case{"test-llama:q4_0", KvType::kBF16}, Case{"test-gemma2:q4_0", KvType::kBF16},
        Case{"test-qwen3moe:q4_0", KvType::kBF16}, Case{"test-qwen3next:f32", KvType::kF32, 40},
        Case{"test-lfm2:bf16", KvType::kBF16, 9},
        Case{"test-granitehybrid:q8_0", KvType::kInt8, 60},
        Case{"test-nemotronhmoe:f32", KvType::kF32, 60},
        Case{"test-qwen4exp:f32", KvType::kBF16, 60}, Case{"test-glm5next:f32", KvType::kBF16, 60},
        Case{"test-deepseek4:f32", KvType::kInt8, 60}),
    [](const auto& info) {
      std::string name = fmt::format("{}_{}", info.param.model, name_of(info.param.kv_type));
      for (char& c : name) {
        if (c == '-' || c == ':' || c == '/') c = '_';
      }
      return name;
    });

// The purpose of speculation is to need fewer steps.
TEST(SpeculationSteps, an_answer_that_repeats_itself_takes_fewer_steps) {
  Request request = greedy_request(some_tokens(20, 1), 100);
  for (int i = 0; i < 100; ++i) request.script.push_back(static_cast<TokenId>(i % 10));
  EngineRig plain({.speculation = kNoSpeculation});
  EngineRig rig;
  const auto expected = plain.run(request);
  const auto sink = rig.run(request);
  EXPECT_EQ(expected->tokens(), sink->tokens());
  EXPECT_EQ(plain.engine().snapshot().steps, 100u);
  EXPECT_LT(rig.engine().snapshot().steps, 35u);
  EXPECT_GT(sink->usage().accepted_tokens, 60u);
  EXPECT_GE(sink->usage().drafted_tokens, sink->usage().accepted_tokens);
  const SpeculationCounters& counters = rig.engine().snapshot().speculation;
  EXPECT_EQ(counters.accepted_tokens, sink->usage().accepted_tokens);
  EXPECT_EQ(counters.drafted_tokens, sink->usage().drafted_tokens);
  uint64_t n_accepted = 0;
  for (const uint64_t n : counters.accepted_at) n_accepted += n;
  EXPECT_EQ(n_accepted, counters.accepted_tokens);
}

}  // namespace
}  // namespace kvik
