#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "engine/request/request.h"
#include "engine/sample/log_softmax.h"

namespace kvik {

// Receivers of logits. They borrow what they write to until the request has finished.

class LogitsSink : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override {}
};

// Copies the row after the last token, [n_vocab], if `row` is not empty.
class LastLogits final : public LogitsSink {
 public:
  explicit LastLogits(std::span<float> row) : row_(row) {}
  void on_logits(uint32_t, std::span<const float> logits) override {
    if (!row_.empty()) std::ranges::copy(logits, row_.begin());
  }

 private:
  const std::span<float> row_;
};

// Copies all rows, [n_tokens, n_vocab].
class AllLogits final : public LogitsSink {
 public:
  explicit AllLogits(std::span<float> rows) : rows_(rows) {}
  void on_logits(uint32_t position, std::span<const float> logits) override {
    const size_t at = size_t{position} * logits.size();
    if (at + logits.size() <= rows_.size()) {
      std::ranges::copy(logits, rows_.begin() + static_cast<ptrdiff_t>(at));
    }
  }

 private:
  const std::span<float> rows_;
};

// Writes the log probability of each token after the first n_context, and the most likely token in
// its place if `likeliest` is not empty: [n_tokens - n_context].
class TokenScores final : public LogitsSink {
 public:
  struct Rows {
    std::span<float> logprobs;
    std::span<TokenId> likeliest = {};
  };
  TokenScores(std::span<const TokenId> tokens, size_t n_context, const Rows& rows)
      : tokens_(tokens), n_context_(n_context), rows_(rows) {}

  void on_logits(uint32_t position, std::span<const float> logits) override {
    const size_t next = size_t{position} + 1;
    if (next < n_context_ || next >= tokens_.size()) return;
    rows_.logprobs[next - n_context_] = LogSoftmax(logits).of(tokens_[next]);
    if (rows_.likeliest.empty()) return;
    rows_.likeliest[next - n_context_] =
        static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
  }

 private:
  const std::span<const TokenId> tokens_;
  const size_t n_context_;
  const Rows rows_;
};

}  // namespace kvik
