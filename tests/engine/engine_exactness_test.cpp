#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/other_samplers.h"
#include "support/tiny_engine.h"

// The cache never changes an answer: tokens, logits and log probabilities of a request are the same
// bits alone, in a batch, after preemption, without the cache, and for all chunk sizes.
namespace kvik {
namespace {

// The parts of an answer that could differ.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;             // of the chosen and the most likely tokens
  std::vector<std::vector<float>> logits;  // of every position, in order

  explicit Answer(const RecordingSink& sink) : tokens(sink.tokens()) {
    for (const TokenEvent& event : sink.events()) {
      if (event.chosen) logprobs.push_back(event.chosen->logprob);
      for (const TokenLogprob& top : event.top) logprobs.push_back(top.logprob);
    }
    for (const auto& [position, row] : sink.logits()) {
      EXPECT_EQ(position, logits.size()) << "a position was left out, or came twice";
      logits.push_back(row);
    }
  }
};

void expect_same(const Answer& expected, const Answer& got) {
  EXPECT_EQ(expected.tokens, got.tokens);
  EXPECT_TRUE(same_bits(expected.logprobs, got.logprobs));
  ASSERT_EQ(expected.logits.size(), got.logits.size());
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_TRUE(same_bits(expected.logits[i], got.logits[i])) << "position " << i;
  }
}

class Exactness : public testing::TestWithParam<const char*> {
 protected:
  TinyModelOptions model() const { return {.name = GetParam()}; }

  // Returns requests of different lengths; every second one samples with a seed.
  static std::vector<Request> requests(uint32_t n) {
    std::vector<Request> all;
    for (uint32_t i = 0; i < n; ++i) {
      const auto prompt = some_tokens(17 + 9 * i, i + 1);
      all.push_back(i % 2 == 0 ? greedy_request(prompt, 45) : seeded_request(prompt, 45, i));
      all.back().logits = Request::Logits::kAll;
      all.back().n_logprobs = 3;
    }
    return all;
  }

  std::vector<Answer> alone(const std::vector<Request>& all) const {
    EngineRig rig({.model = model()});
    std::vector<Answer> answers;
    for (const Request& request : all) answers.emplace_back(*rig.run(request));
    return answers;
  }

  static std::vector<Answer> together(EngineRig& rig, const std::vector<Request>& all) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : all) {
      sinks.push_back(rig.submit(request));
      rig.engine().step();  // earlier requests are a step ahead
    }
    rig.run();
    std::vector<Answer> answers;
    for (const auto& sink : sinks) answers.emplace_back(*sink);
    return answers;
  }

  static void expect_all_same(const std::vector<Answer>& expected, const std::vector<Answer>& got) {
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      expect_same(expected[i], got[i]);
    }
  }
};

TEST_P(Exactness, an_answer_alone_is_complete_and_varied) {
  const auto answers = alone(requests(4));
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    EXPECT_EQ(answer.tokens.size(), 45u);
    EXPECT_EQ(answer.logprobs.size(), 45u * 4);
    EXPECT_EQ(answer.logits.size(), 17 + 9 * i + 44);
    // A constant answer would hide errors. With greedy sampling a random model may produce one.
    if (i % 2 == 1) {
      EXPECT_LT(std::ranges::count(answer.tokens, answer.tokens[0]), 20);
    }
  }
}

TEST_P(Exactness, batch_composition_changes_nothing) {
  const auto all = requests(4);
  EngineRig rig({.model = model()});
  expect_all_same(alone(all), together(rig, all));
}

TEST_P(Exactness, threads_change_nothing) {
  const auto all = requests(2);
  TinyModelOptions two_threads = model();
  two_threads.n_threads = 2;
  EngineRig rig({.model = two_threads});
  expect_all_same(alone(all), together(rig, all));
}

TEST_P(Exactness, preemption_changes_nothing) {
  const auto all = requests(4);
  // The last request needs 3 of these 5 pages; all together need 11.
  EngineRig rig({.model = model(), .n_pages = 5});
  expect_all_same(alone(all), together(rig, all));
  EXPECT_GT(rig.engine().snapshot().preemptions, 0u);
  EXPECT_EQ(rig.pages().leased, 0u);
}

TEST_P(Exactness, other_samplers_draw_the_same_in_company_and_after_preemption) {
  auto all = requests(kOtherSamplers);
  for (uint32_t i = 0; i < all.size(); ++i) {
    all[i].prompt.resize(17 + i);
    all[i].sampling.temperature = 1.2f;
    add_other_sampler(all[i].sampling, i);
  }
  EngineRig rig({.model = model(), .n_pages = 5});
  expect_all_same(alone(all), together(rig, all));
  EXPECT_GT(rig.engine().snapshot().preemptions, 0u);
}

TEST_P(Exactness, small_steps_change_nothing) {
  const auto all = requests(4);
  EngineRig rig({.model = model(), .max_step_tokens = 5, .max_running = 4});
  expect_all_same(alone(all), together(rig, all));
}

TEST_P(Exactness, chunks_change_nothing) {
  const auto all = requests(2);
  const auto expected = alone(all);
  for (const uint32_t max_chunk : {1u, 7u, 33u}) {
    SCOPED_TRACE(max_chunk);
    auto chunked = all;
    for (Request& request : chunked) request.max_chunk = max_chunk;
    expect_all_same(expected, alone(chunked));
  }
}

TEST_P(Exactness, the_cache_switched_off_changes_nothing) {
  const auto all = requests(4);
  auto uncached = all;
  for (Request& request : uncached) request.cache = Request::Cache::kOff;
  expect_all_same(alone(all), alone(uncached));
  EngineRig small({.model = model(), .n_pages = 5});
  expect_all_same(alone(all), together(small, uncached));
  EXPECT_GT(small.engine().snapshot().preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(all, Exactness,
                         testing::Values("test-llama:f32", "test-qwen3:q8_0", "test-gemma2:q4_0",
                                         "test-gemma3:bf16", "test-qwen2moe:f32",
                                         "test-qwen3moe:q4_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-' || c == ':') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace kvik
