#include "service/pooling_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace kvik {

EventSink::Verdict PoolingStream::on_token(const TokenEvent&) {
  CHECK(false && "a request for hidden states must not generate tokens");
  return Verdict::kStop;
}

void PoolingStream::on_hidden(uint32_t position, std::span<const float> state) {
  if (options_.pooling == Pooling::kCls && position > 0) return;
  const bool is_of_last = options_.pooling == Pooling::kLast || options_.pooling == Pooling::kRank;
  if (sums_.empty() || is_of_last) {
    sums_.assign(state.begin(), state.end());
    n_states_ = 1;
    return;
  }
  for (size_t i = 0; i < state.size(); ++i) sums_[i] += double{state[i]};
  ++n_states_;
}

void PoolingStream::on_scores(std::span<const float> scores) {
  sums_.assign(scores.begin(), scores.end());
  n_states_ = 1;
}

// Replaces the pooled state by its product with a matrix. The rows of the product are added up
// together, each in ascending order of columns.
void PoolingStream::multiply(std::span<const float> matrix) {
  if (matrix.empty()) return;
  CHECK(matrix.size() % sums_.size() == 0);
  const size_t n_rows = matrix.size() / sums_.size();
  std::vector<double> product(n_rows);
  for (size_t column = 0; column < sums_.size(); ++column) {
    const float* of_column = matrix.data() + column * n_rows;
    const double value = sums_[column];
    for (size_t row = 0; row < n_rows; ++row) product[row] += double{of_column[row]} * value;
  }
  sums_ = std::move(product);
}

// Replaces the last token's state by its score.
void PoolingStream::score() {
  CHECK(sums_.size() == options_.score_weights.size());
  double score = 0;
  for (size_t i = 0; i < sums_.size(); ++i) score += double{options_.score_weights[i]} * sums_[i];
  sums_.assign(1, score);
}

namespace {

// Returns the number by which a vector is divided; 1 for one of zeros.
double norm_of(std::span<const double> values, const EmbeddingRequest::Norm& norm) {
  using Kind = EmbeddingRequest::Norm::Kind;
  if (norm.kind == Kind::kNone) return 1;
  double sum = 0;
  for (const double value : values) {
    if (norm.kind == Kind::kMaxInt16) {
      sum = std::max(sum, std::abs(value) / 32760);
    } else {
      sum += norm.p == 2 ? value * value : std::pow(std::abs(value), norm.p);
    }
  }
  if (!(sum > 0)) return 1;
  if (norm.kind == Kind::kMaxInt16) return sum;
  return norm.p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / norm.p);
}

}  // namespace

std::vector<float> PoolingStream::pooled() const {
  const size_t n_dims = std::min<size_t>(options_.n_dims.value_or(sums_.size()), sums_.size());
  const std::span<const double> sums = std::span(sums_).first(n_dims);
  // The sum has the direction of the mean, so its norm suffices.
  const bool divides = options_.norm.kind != EmbeddingRequest::Norm::Kind::kNone;
  const double divisor = divides ? norm_of(sums, options_.norm) : n_states_;
  std::vector<float> out(n_dims);
  for (size_t i = 0; i < n_dims; ++i) out[i] = static_cast<float>(sums[i] / divisor);
  return out;
}

void PoolingStream::on_finish(FinishReason reason, const Usage& usage) {
  std::optional<std::vector<float>> embedding;
  if (reason == FinishReason::kStop) {
    const bool ranks = options_.pooling == Pooling::kRank;
    if (ranks && !options_.score_weights.empty()) score();
    if (!ranks) {
      multiply(options_.dense.out);
      multiply(options_.dense.back);
    }
    embedding = pooled();
  }
  sink_->on_embedding(std::move(embedding), usage);
}

}  // namespace kvik
