#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "support/memory_source.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Engine, without_requests_there_is_nothing_to_do) {
  EngineRig rig;
  EXPECT_FALSE(rig.engine().step());
  EXPECT_EQ(rig.engine().snapshot().steps, 0u);
}

TEST(Engine, max_tokens_is_where_an_answer_ends) {
  EngineRig rig;
  const auto sink = rig.run(greedy_request(some_tokens(10), 7));
  EXPECT_EQ(sink->tokens().size(), 7u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
  EXPECT_EQ(sink->usage().prompt_tokens, 10u);
  EXPECT_EQ(sink->usage().completion_tokens, 7u);
}

TEST(Engine, with_max_tokens_0_the_prompt_is_computed_and_nothing_is_picked) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(40), 0);
  request.logits = Request::Logits::kAll;
  const auto sink = rig.run(request);
  EXPECT_TRUE(sink->tokens().empty());
  EXPECT_EQ(sink->logits().size(), 40u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST(Engine, the_token_picked_last_is_not_computed) {
  EngineRig rig;
  rig.run(greedy_request(some_tokens(10), 1));
  const EngineSnapshot snapshot = rig.engine().snapshot();
  EXPECT_EQ(snapshot.steps, 1u);
  EXPECT_EQ(snapshot.prompt_tokens, 10u);
  EXPECT_EQ(snapshot.generated_tokens, 1u);
}

TEST(Engine, greedy_tokens_are_those_of_the_largest_logits) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(10), 20);
  request.logits = Request::Logits::kAll;
  const auto sink = rig.run(request);
  const auto tokens = sink->tokens();
  const auto logits = sink->logits();
  ASSERT_EQ(logits.size(), 29u);
  for (size_t i = 0; i < 20; ++i) {
    const auto& row = logits[9 + i].second;
    EXPECT_EQ(tokens[i], static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
  }
}

TEST(Engine, last_logits_are_those_that_tokens_are_picked_from) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(40), 3);
  request.max_chunk = 7;
  request.logits = Request::Logits::kLast;
  const auto logits = rig.run(request)->logits();
  ASSERT_EQ(logits.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(logits[i].first, 39 + i);
}

TEST(Engine, a_stop_token_ends_the_answer_and_is_no_part_of_it) {
  EngineRig rig;
  const auto all = rig.run(greedy_request(some_tokens(10), 20))->tokens();
  Request request = greedy_request(some_tokens(10), 20);
  request.stop_tokens = {3, all[12]};
  const auto sink = rig.run(request);
  const auto end = std::ranges::find(all, all[12]);
  EXPECT_EQ(sink->tokens(), std::vector<TokenId>(all.begin(), end));
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kStop));
}

TEST(Engine, stop_tokens_are_not_picked_before_min_tokens) {
  EngineRig rig;
  const TokenId first = rig.run(greedy_request(some_tokens(10), 1))->tokens().at(0);
  Request request = greedy_request(some_tokens(10), 20);
  request.stop_tokens = {first};
  EXPECT_TRUE(rig.run(request)->tokens().empty());
  request.min_tokens = 5;
  const auto tokens = rig.run(request)->tokens();
  EXPECT_GE(tokens.size(), 5u);
  EXPECT_EQ(std::ranges::count(tokens, first), 0);
}

TEST(Engine, a_sink_can_end_the_answer_at_a_token) {
  EngineRig rig;
  int n = 0;
  const auto sink = rig.run(greedy_request(some_tokens(10), 20), [&n](const TokenEvent&) {
    return ++n == 3 ? EventSink::Verdict::kStop : EventSink::Verdict::kContinue;
  });
  EXPECT_EQ(sink->tokens().size(), 3u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kStop));
  EXPECT_EQ(sink->usage().completion_tokens, 3u);
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST(Engine, logprobs_come_where_they_are_asked_for) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(10), 4);
  for (const TokenEvent& event : rig.run(request)->events()) {
    EXPECT_FALSE(event.chosen.has_value());
    EXPECT_TRUE(event.top.empty());
  }
  request.n_logprobs = 0;
  for (const TokenEvent& event : rig.run(request)->events()) {
    EXPECT_TRUE(event.chosen.has_value());
    EXPECT_TRUE(event.top.empty());
  }
  request.n_logprobs = 5;
  for (const TokenEvent& event : rig.run(request)->events()) {
    ASSERT_EQ(event.top.size(), 5u);
    ASSERT_TRUE(event.chosen.has_value());
    EXPECT_EQ(event.chosen->id, event.id);
    EXPECT_EQ(event.top[0].id, event.id);
    EXPECT_EQ(event.top[0].logprob, event.chosen->logprob);
  }
}

TEST(Engine, penalties_look_at_the_answer_so_far) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(10), 60);
  request.sampling.presence_penalty = 1000;
  auto tokens = rig.run(request)->tokens();
  std::ranges::sort(tokens);
  EXPECT_TRUE(std::ranges::adjacent_find(tokens) == tokens.end()) << "a token came twice";
}

TEST(Engine, logits_that_are_no_numbers_fail_the_request_alone) {
  const auto original = make_synthetic("synthetic:test-llama:f32");
  ASSERT_TRUE(original.has_value());
  MemorySource broken(**original);
  broken.take("output_norm.weight");
  broken.add_vector("output_norm.weight",
                    std::vector<float>(64, std::numeric_limits<float>::max()));
  EngineRig rig({}, load_tiny(broken));
  for (const float temperature : {0.0f, 1.0f}) {
    Request request = greedy_request(some_tokens(10), 5);
    request.sampling.temperature = temperature;
    const auto sink = rig.run(request);
    EXPECT_TRUE(sink->tokens().empty());
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kFailed));
    EXPECT_EQ(rig.pages().leased, 0u);
  }
}

TEST(Engine, cancelling_notifies_the_sink_and_releases_pages) {
  EngineRig rig;
  const auto sink = rig.submit(greedy_request(some_tokens(40), 100));
  rig.engine().step();
  rig.engine().step();
  EXPECT_EQ(rig.pages().leased + rig.pages().sealed, 2u);
  rig.engine().cancel(rig.last_id());
  EXPECT_EQ(rig.pages().leased + rig.pages().sealed, 0u);
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kCancelled));
  EXPECT_EQ(sink->usage().completion_tokens, 2u);
  EXPECT_FALSE(rig.engine().step());
}

TEST(Engine, a_request_can_be_cancelled_at_any_time) {
  EngineRig rig({.max_step_tokens = 8, .max_running = 1});
  const auto running = rig.submit(greedy_request(some_tokens(40), 100));
  const RequestId running_id = rig.last_id();
  const auto waiting = rig.submit(greedy_request(some_tokens(40), 100));
  rig.engine().step();
  rig.engine().cancel(rig.last_id());
  EXPECT_THAT(waiting->finishes(), ElementsAre(FinishReason::kCancelled));
  rig.engine().cancel(running_id);
  EXPECT_THAT(running->finishes(), ElementsAre(FinishReason::kCancelled));
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST(Engine, cancelling_what_is_unknown_or_over_does_nothing) {
  EngineRig rig;
  rig.engine().cancel(RequestId{99});
  const auto sink = rig.run(greedy_request(some_tokens(4), 2));
  rig.engine().cancel(rig.last_id());
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(Engine, cancel_all_ends_running_and_waiting_requests) {
  EngineRig rig({.max_running = 2});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 5; ++i) sinks.push_back(rig.submit(greedy_request(some_tokens(9), 50)));
  rig.engine().step();
  rig.engine().cancel_all();
  for (const auto& sink : sinks) {
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kCancelled));
  }
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST(Engine, short_of_memory_requests_queue_and_end_in_the_order_they_came) {
  EngineRig rig({.n_pages = 3});
  std::vector<int> ended;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    auto n = std::make_shared<int>(0);
    sinks.push_back(rig.submit(greedy_request(some_tokens(30, static_cast<uint32_t>(i)), 20),
                               [&ended, n, i](const TokenEvent&) {
                                 if (++*n == 20) ended.push_back(i);
                                 return EventSink::Verdict::kContinue;
                               }));
  }
  rig.run();
  EXPECT_TRUE(std::ranges::is_sorted(ended));
  EXPECT_EQ(ended.size(), 12u);
  EXPECT_GT(rig.engine().snapshot().preemptions, 0u);
  for (const auto& sink : sinks) EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(Engine, a_request_may_fill_the_whole_budget) {
  EngineRig rig({.n_pages = 3});
  EXPECT_EQ(rig.engine().limits().n_ctx_max, 96u);
  EXPECT_EQ(rig.run(greedy_request(some_tokens(60), 36))->tokens().size(), 36u);
}

TEST(Engine, the_context_is_as_trained_as_asked_for_or_what_the_budget_holds) {
  EXPECT_EQ(EngineRig({.n_pages = 65}).engine().limits().n_ctx_max, 2048u);
  EXPECT_EQ(EngineRig({.n_pages = 65, .n_ctx_max = 100}).engine().limits().n_ctx_max, 100u);
  EXPECT_EQ(EngineRig({.n_pages = 2, .n_ctx_max = 100}).engine().limits().n_ctx_max, 64u);
  EXPECT_EQ(EngineRig({.n_pages = 65}).engine().limits().kv_tokens, 65u * 32);
}

TEST(Engine, a_budget_of_less_than_a_page_is_refused) {
  TinyModel tiny = load_tiny();
  const TickingClock clock;
  const auto engine = Engine::create(std::move(tiny.model), *tiny.backend,
                                     {.kv_budget_bytes = 100, .kv_type = KvType::kBF16}, clock);
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(engine.error().message, HasSubstr("holds 0 pages"));
}

class EngineCheck : public testing::Test {
 protected:
  Error error_of(const Request& request) {
    const auto checked = rig_.engine().check(request);
    EXPECT_FALSE(checked.has_value());
    return checked ? Error{ErrorCode::kIo, "", ""} : checked.error();
  }
  EngineRig rig_{{.n_ctx_max = 100}};
};

TEST_F(EngineCheck, refuses_an_empty_prompt) {
  const Error error = error_of(greedy_request({}, 5));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.param, "prompt");
}

TEST_F(EngineCheck, refuses_ids_outside_the_vocabulary_wherever_they_stand) {
  const Error in_prompt = error_of(greedy_request({4, 260}, 5));
  EXPECT_EQ(in_prompt.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(in_prompt.param, "prompt");
  EXPECT_THAT(in_prompt.message, HasSubstr("260"));

  Request request = greedy_request({4, 259}, 5);
  EXPECT_TRUE(rig_.engine().check(request).has_value());
  request.stop_tokens = {UINT32_MAX};
  EXPECT_EQ(error_of(request).param, "stop_token_ids");
  request.stop_tokens = {};
  request.sampling.logit_bias = {{4, 1.0f}, {260, 1.0f}};
  EXPECT_EQ(error_of(request).param, "logit_bias");
}

TEST_F(EngineCheck, refuses_what_the_context_cannot_hold) {
  EXPECT_TRUE(rig_.engine().check(greedy_request(some_tokens(60), 40)).has_value());
  const Error error = error_of(greedy_request(some_tokens(60), 41));
  EXPECT_EQ(error.code, ErrorCode::kContextLength);
  EXPECT_THAT(error.message, HasSubstr("101"));
  EXPECT_THAT(error.message, HasSubstr("100"));
  EXPECT_EQ(error_of(greedy_request(some_tokens(101), 0)).code, ErrorCode::kContextLength);
  EXPECT_EQ(error_of(greedy_request(some_tokens(60), UINT32_MAX)).code, ErrorCode::kContextLength);
}

TEST_F(EngineCheck, rejects_chunks_of_zero_tokens) {
  Request request = greedy_request({4}, 5);
  request.max_chunk = 0;
  EXPECT_EQ(error_of(request).param, "max_chunk");
}

TEST(Engine, queue_prefill_and_decode_times_are_separate) {
  EngineRig rig({.max_running = 1});
  const auto first = rig.submit(greedy_request(some_tokens(4), 10));
  const auto second = rig.submit(greedy_request(some_tokens(4), 10));
  rig.run();
  EXPECT_GT(first->usage().queue_time, Duration::zero());
  // The second request waited for the whole first one.
  EXPECT_GT(second->usage().queue_time, first->usage().ttft + first->usage().decode_time);
  EXPECT_GT(second->usage().ttft, second->usage().queue_time);
  EXPECT_GT(second->usage().decode_time, Duration::zero());
}

TEST(Engine, a_snapshot_says_how_long_things_took_and_how_they_ended) {
  EngineRig rig({.max_step_tokens = 16, .max_running = 4});
  rig.submit(greedy_request(some_tokens(20, 1), 5));
  rig.submit(greedy_request(some_tokens(4, 2), 0));
  rig.engine().step();
  EXPECT_EQ(rig.engine().snapshot().last_step.n_prefill_rows, 16u);
  EXPECT_EQ(rig.engine().snapshot().last_step.n_decode_rows, 0u);
  rig.submit(greedy_request(some_tokens(30, 3), 50));
  rig.engine().step();
  rig.engine().step();
  const StepRecord step = rig.engine().snapshot().last_step;
  EXPECT_EQ(step.n_sequences, 2u);
  EXPECT_EQ(step.n_decode_rows, 1u);
  EXPECT_EQ(step.n_prefill_rows, 15u);
  EXPECT_GT(step.ms, 0);
  rig.engine().cancel(rig.last_id());
  rig.run();
  const EngineSnapshot snapshot = rig.engine().snapshot();
  EXPECT_EQ(snapshot.n_finished(FinishReason::kLength), 2u);
  EXPECT_EQ(snapshot.n_finished(FinishReason::kCancelled), 1u);
  const EngineHistograms& histograms = snapshot.histograms;
  EXPECT_EQ(histograms.queue_s.count(), 3u);
  EXPECT_EQ(histograms.e2e_s.count(), 3u);
  EXPECT_EQ(histograms.ttft_s.count(), 1u);  // one of three got tokens
  EXPECT_EQ(histograms.prefill_s.count(), 1u);
  EXPECT_EQ(histograms.itl_s.count(), 4u);
  EXPECT_EQ(histograms.decode_s.count(), 1u);
  EXPECT_NEAR(histograms.itl_s.sum(), histograms.decode_s.sum(), 1e-9);
  EXPECT_EQ(histograms.step_s.count(), snapshot.steps);
  EXPECT_EQ(histograms.batch_rows.count(), snapshot.steps);
  EXPECT_EQ(histograms.pages_in_use.count(), snapshot.steps);
}

TEST(Engine, a_snapshot_counts_what_was_computed) {
  EngineRig rig({.max_step_tokens = 8, .max_running = 1});
  rig.submit(greedy_request(some_tokens(20, 1), 5));
  rig.submit(greedy_request(some_tokens(20, 2), 5));
  rig.engine().step();
  EngineSnapshot snapshot = rig.engine().snapshot();
  EXPECT_EQ(snapshot.n_running, 1u);
  EXPECT_EQ(snapshot.n_waiting, 1u);
  EXPECT_EQ(snapshot.prompt_tokens, 8u);
  EXPECT_EQ(snapshot.pages.leased, 1u);
  EXPECT_EQ(snapshot.pages.total(), 64u);
  rig.run();
  snapshot = rig.engine().snapshot();
  EXPECT_EQ(snapshot.prompt_tokens, 40u);
  EXPECT_EQ(snapshot.generated_tokens, 10u);
  EXPECT_EQ(snapshot.n_running + snapshot.n_waiting, 0u);
}

TEST(Engine, after_10000_requests_of_which_many_leave_early_no_page_is_leased) {
  EngineRig rig({.n_pages = 7, .max_step_tokens = 32, .max_running = 6});
  std::mt19937 random(1);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  while (sinks.size() < 10000) {
    if (rig.engine().snapshot().n_waiting < 8) {
      Request request = seeded_request(some_tokens(1 + below(60), below(1000)), 0, below(1000));
      request.max_tokens = below(40);
      request.stop_tokens = {below(260), below(260), below(260)};
      if (below(10) == 0) request.logits = Request::Logits::kAll;
      if (below(10) == 0) request.cache = Request::Cache::kOff;
      sinks.push_back(rig.submit(std::move(request)));
    }
    if (below(2) == 0) {
      const auto youngest = static_cast<uint64_t>(rig.last_id());
      rig.engine().cancel(RequestId{youngest - std::min<uint64_t>(youngest, below(16))});
    }
    if (below(3) == 0) rig.engine().step();
    ASSERT_EQ(rig.pages().total(), 7u);
  }
  rig.run();
  EXPECT_EQ(rig.pages().leased + rig.pages().sealed, 0u);
  for (const auto& sink : sinks) {
    ASSERT_EQ(sink->finishes().size(), 1u);
    ASSERT_TRUE(sink->is_in_order());
  }
  const auto after = rig.run(greedy_request(some_tokens(30), 10));
  EXPECT_EQ(after->tokens(), EngineRig().run(greedy_request(some_tokens(30), 10))->tokens());
}

}  // namespace
}  // namespace kvik
