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

// Writes the log probability of each token after those before it; that of the first is 0.
class TokenScores final : public LogitsSink {
 public:
  TokenScores(std::span<const TokenId> tokens, std::span<float> scores)
      : tokens_(tokens), scores_(scores) {
    std::ranges::fill(scores_, 0.0f);
  }
  void on_logits(uint32_t position, std::span<const float> logits) override {
    const size_t next = size_t{position} + 1;
    if (next < scores_.size()) scores_[next] = LogSoftmax(logits).of(tokens_[next]);
  }

 private:
  const std::span<const TokenId> tokens_;
  const std::span<float> scores_;
};

}  // namespace kvik
