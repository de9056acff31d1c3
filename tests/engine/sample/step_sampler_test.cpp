#include "engine/sample/step_sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/sample/log_softmax.h"

namespace kvik {
namespace {

constexpr uint32_t kVocab = 1000;

std::unique_ptr<Backend> backend_of(uint32_t n_threads) {
  CpuBackendOptions options;
  options.n_threads = n_threads;
  return *make_cpu_backend(options);
}

struct Rows {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<float>> logits;

  explicit Rows(uint32_t n) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 3);
    for (uint32_t i = 0; i < n; ++i) {
      Request request;
      request.prompt = {i};
      request.sampling = {.top_p = 0.9f, .seed = i};
      if (i % 3 == 0) request.n_logprobs = 4;
      if (i % 4 == 0) request.sampling.repetition_penalty = 1.5f;
      if (i % 5 == 0) request.script = {i};
      sequences.push_back(std::make_unique<Sequence>(
          QueuedRequest{.id = RequestId{i}, .request = std::move(request)}));
      auto& row = logits.emplace_back(kVocab);
      for (float& logit : row) logit = normal(random);
    }
  }

  std::vector<TokenPick> picks() const {
    std::vector<TokenPick> all;
    for (size_t i = 0; i < sequences.size(); ++i) {
      all.push_back({.sequence = sequences[i].get(), .logits = logits[i]});
    }
    return all;
  }
};

TEST(StepSampler, several_threads_pick_the_same_tokens_as_one) {
  const Rows rows(33);
  auto one = backend_of(1);
  auto four = backend_of(4);
  StepSampler alone(*one, kVocab), together(*four, kVocab);
  auto expected = rows.picks();
  for (TokenPick& pick : expected) alone.make(pick);
  auto picks = rows.picks();
  together.make(picks);
  for (size_t i = 0; i < picks.size(); ++i) {
    ASSERT_TRUE(picks[i].is_made && picks[i].event);
    const TokenEvent& event = *picks[i].event;
    EXPECT_EQ(event.id, expected[i].event->id) << i;
    if (i % 5 == 0) {
      EXPECT_EQ(event.id, i);
    }
    ASSERT_EQ(event.chosen.has_value(), i % 3 == 0);
    if (!event.chosen) continue;
    EXPECT_EQ(event.chosen->logprob, LogSoftmax(rows.logits[i]).of(event.id));
    ASSERT_EQ(event.top.size(), 4u);
    EXPECT_EQ(event.top[0].logprob, expected[i].event->top[0].logprob);
  }
}

TEST(StepSampler, a_row_without_finite_logits_has_no_token) {
  Rows rows(2);
  std::ranges::fill(rows.logits[1], std::numeric_limits<float>::quiet_NaN());
  auto backend = backend_of(2);
  StepSampler sampler(*backend, kVocab);
  auto picks = rows.picks();
  sampler.make(picks);
  EXPECT_TRUE(picks[0].event);
  EXPECT_TRUE(picks[1].is_made);
  EXPECT_FALSE(picks[1].event);
}

}  // namespace
}  // namespace kvik
