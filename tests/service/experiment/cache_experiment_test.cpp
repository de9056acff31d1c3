#include "service/experiment/cache_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "support/tiny_service.h"

namespace kvik {
namespace {

CacheExperiment::Options options_for(uint32_t n_prompt, uint32_t max_tokens) {
  CacheExperiment::Options options;
  for (uint32_t i = 0; i < n_prompt; ++i) options.prompt.push_back(byte_token('a' + i % 26));
  options.max_tokens = max_tokens;
  options.cache_salt = "explain";
  return options;
}

// Waits for wakes, as a connection does: advance() is called after a wake, never inside it.
class WakeSignal {
 public:
  void notify() {
    const std::scoped_lock lock(mutex_);
    is_notified_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, kTestTimeout, [this] { return is_notified_; });
    is_notified_ = false;
    return in_time;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_notified_ = false;
};

// Runs the experiment to its end or to its first error.
Result<void> run(CacheExperiment& experiment) {
  WakeSignal wake;
  experiment.set_wake([&] { wake.notify(); });
  TRY(experiment.start());
  for (;;) {
    TRY_ASSIGN(const bool is_done, experiment.advance());
    if (is_done) break;
    CHECK(wake.wait());
  }
  experiment.set_wake(nullptr);
  return {};
}

TEST(CacheExperiment, computes_a_row_a_token_with_the_cache_and_all_rows_without) {
  ServiceRig rig;
  const uint32_t n_prompt = 40, n_tokens = 12;
  CacheExperiment experiment(rig.service(), options_for(n_prompt, n_tokens));
  ASSERT_TRUE(run(experiment).has_value());
  ASSERT_EQ(experiment.runs().size(), 3u);
  const TracedRun& cold = experiment.runs()[0];
  const TracedRun& naive = experiment.runs()[1];
  const TracedRun& warm = experiment.runs()[2];
  ASSERT_EQ(cold.tokens.size(), n_tokens);
  ASSERT_EQ(naive.tokens.size(), n_tokens);
  ASSERT_EQ(warm.tokens.size(), n_tokens);
  uint64_t triangle = 0;
  for (uint32_t i = 0; i < n_tokens; ++i) {
    EXPECT_EQ(cold.tokens[i].n_seen, n_prompt + i);
    EXPECT_EQ(cold.tokens[i].kv_rows, n_prompt + i);
    EXPECT_EQ(naive.tokens[i].kv_rows, triangle += n_prompt + i);
    EXPECT_EQ(warm.tokens[i].kv_rows, 1 + i) << "of the prompt, all but one token was found";
    EXPECT_GT(naive.tokens[i].ms, 0);
    EXPECT_EQ(naive.tokens[i].n_other_sequences, 0u);
  }
  EXPECT_EQ(cold.usage.cached_tokens, 0u);
  EXPECT_EQ(naive.usage.cached_tokens, 0u);
  EXPECT_EQ(warm.usage.cached_tokens, n_prompt - 1);
  const uint64_t page_bytes = rig.service().snapshot().page_bytes;
  EXPECT_EQ(cold.tokens.front().kv_bytes, 2 * page_bytes);
  EXPECT_TRUE(naive.fit().has_value());
}

TEST(CacheExperiment, holds_every_logit_against_the_first_run_byte_for_byte) {
  ServiceRig rig;
  CacheExperiment experiment(rig.service(), options_for(40, 6));
  ASSERT_TRUE(run(experiment).has_value());
  EXPECT_TRUE(experiment.are_bits_equal());
  for (size_t i = 1; i < 3; ++i) {
    const TracedRun& other = experiment.runs()[i];
    EXPECT_EQ(other.n_compared, 6u * rig.service().card().n_vocab);
    EXPECT_EQ(other.n_different, 0u);
    for (size_t t = 0; t < 6; ++t) {
      EXPECT_EQ(other.tokens[t].id, experiment.runs()[0].tokens[t].id);
    }
  }
}

// A fake service whose second run has different bits in a logit, as with a faulty cache, and whose
// tokens take the times that the test sets.
class UnequalService final : public ServiceApi {
 public:
  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override {
    ++n_runs_;
    const std::vector<float> logits = {1, n_runs_ == 2 ? -0.0f : 0.0f, 3};
    const int ms = n_runs_ <= static_cast<int>(token_ms_.size()) ? token_ms_[n_runs_ - 1] : 1;
    salts_.push_back(request.engine.cache_salt);
    for (uint32_t i = 0; i < request.max_tokens; ++i) {
      sink->on_trace({.id = 2,
                      .began = {},
                      .at = TimePoint{} + std::chrono::milliseconds(ms * (i + 1)),
                      .position = i,
                      .kv_rows = 1 + i,
                      .logits = logits});
    }
    CompletionChunk chunk;
    chunk.finish = finish_;
    sink->on_chunk(chunk);
    sink->on_done({});
    return std::make_unique<Nothing>();
  }
  void finish_with(FinishReason reason) { finish_ = reason; }
  // Sets the milliseconds per token of the runs, in the order in which they start; further runs
  // take 1 ms.
  void take_ms(std::vector<int> token_ms) { token_ms_ = std::move(token_ms); }
  const std::vector<std::string>& salts() const { return salts_; }

  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest,
                                            std::shared_ptr<EmbeddingSink>) override {
    return std::make_unique<Nothing>();
  }
  std::vector<TokenId> tokenize(std::string_view, const TokenizeOptions&) const override {
    return {};
  }
  Result<std::string> detokenize(std::span<const TokenId>) const override { return std::string(); }
  Result<std::string> apply_template(const ChatRequest&) const override { return std::string(); }
  Result<ChatPrompt> chat_prompt(const ChatRequest&) const override { return ChatPrompt{}; }
  const ModelCard& card() const override { return card_; }
  EngineSnapshot snapshot() const override { return {}; }
  Result<void> watch(const std::shared_ptr<LiveSink>&) override { return {}; }

 private:
  class Nothing final : public Completion {
    uint32_t prompt_tokens() const override { return 1; }
  };
  ModelCard card_;
  int n_runs_ = 0;
  FinishReason finish_ = FinishReason::kLength;
  std::vector<int> token_ms_;
  std::vector<std::string> salts_;
};

TEST(CacheExperiment, detects_one_different_bit) {
  UnequalService service;
  CacheExperiment experiment(service, options_for(1, 5));
  ASSERT_TRUE(run(experiment).has_value());
  EXPECT_FALSE(experiment.are_bits_equal());
  EXPECT_EQ(experiment.runs()[1].n_compared, 15u);
  EXPECT_EQ(experiment.runs()[1].n_different, 5u) << "-0 equals 0, but not its bits";
  EXPECT_EQ(experiment.runs()[2].n_different, 0u);
}

TEST(CacheExperiment, each_token_has_the_least_time_of_all_repeats) {
  UnequalService service;
  service.take_ms({5, 9, 4, /**/ 3, 12, 6, /**/ 7, 8, 2});
  CacheExperiment::Options options = options_for(1, 5);
  options.repeats = 3;
  CacheExperiment experiment(service, options);
  ASSERT_TRUE(run(experiment).has_value());
  EXPECT_EQ(experiment.n_repeats(), 3u);
  ASSERT_EQ(experiment.runs().size(), 3u);
  const double expected_ms[] = {3, 8, 2};
  for (size_t i = 0; i < 3; ++i) {
    const TracedRun& merged = experiment.runs()[i];
    ASSERT_EQ(merged.tokens.size(), 5u);
    for (const TracedToken& token : merged.tokens) EXPECT_DOUBLE_EQ(token.ms, expected_ms[i]);
    EXPECT_EQ(merged.n_compared, (i == 0 ? 2u : 3u) * 15);
  }
  const auto& salts = service.salts();
  ASSERT_EQ(salts.size(), 9u);
  EXPECT_EQ(salts[0], salts[2]) << "the warm run has what the cold one cached";
  EXPECT_NE(salts[0], salts[3]) << "a cold run has no cached tokens";
  EXPECT_NE(salts[3], salts[6]);
}

TEST(CacheExperiment, repeats_end_when_the_time_is_spent) {
  UnequalService service;
  service.take_ms({10, 20, 10, /**/ 10, 20, 10});
  CacheExperiment::Options options = options_for(1, 5);  // a repeat of all three ways takes 200 ms
  options.repeats = 100;
  options.max_ms = 500;
  CacheExperiment experiment(service, options);
  ASSERT_TRUE(run(experiment).has_value());
  EXPECT_EQ(experiment.n_repeats(), 2u);
}

TEST(CacheExperiment, returns_an_error_if_a_run_was_cut_off) {
  UnequalService service;
  service.finish_with(FinishReason::kCancelled);
  CacheExperiment experiment(service, options_for(1, 2));
  const auto ended = run(experiment);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
}

TEST(CacheExperiment, destroying_it_early_cancels_its_run) {
  ServiceRig rig;
  {
    CacheExperiment experiment(rig.service(), options_for(20, 60));
    ASSERT_TRUE(experiment.start().has_value());
  }
  EXPECT_TRUE(rig.drain());
}

}  // namespace
}  // namespace kvik
