#include "service/pooling_stream.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvik {

EventSink::Verdict PoolingStream::on_token(const TokenEvent&) {
  CHECK(false && "a request for hidden states must not generate tokens");
  return Verdict::kStop;
}

void PoolingStream::on_hidden(uint32_t, std::span<const float> state) {
  if (sums_.empty() || pooling_ == EmbeddingRequest::Pooling::kLast) {
    sums_.assign(state.begin(), state.end());
    return;
  }
  for (size_t i = 0; i < state.size(); ++i) sums_[i] += double{state[i]};
}

// The sum suffices for the mean: both have the same direction, and the length is normalized to 1.
std::vector<float> PoolingStream::pooled() const {
  const size_t n_dims = std::min<size_t>(n_dims_.value_or(sums_.size()), sums_.size());
  double square = 0;
  for (size_t i = 0; i < n_dims; ++i) square += sums_[i] * sums_[i];
  const double length = square > 0 ? std::sqrt(square) : 1;
  std::vector<float> out(n_dims);
  for (size_t i = 0; i < n_dims; ++i) out[i] = static_cast<float>(sums_[i] / length);
  return out;
}

void PoolingStream::on_finish(FinishReason reason, const Usage& usage) {
  std::optional<std::vector<float>> embedding;
  if (reason == FinishReason::kStop) embedding = pooled();
  sink_->on_embedding(std::move(embedding), usage);
}

}  // namespace kvik
