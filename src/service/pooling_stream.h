#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/request/request.h"
#include "service/embedding.h"

namespace kvik {

// Pools one prompt's hidden states as they arrive. Sums are doubles, added in order of position, so
// the result is bit-identical for every division into chunks. Engine thread only.
class PoolingStream final : public EventSink {
 public:
  struct Options {
    Pooling pooling = Pooling::kMean;
    std::optional<uint32_t> n_dims = {};  // absent: all
    EmbeddingRequest::Norm norm = {};
  };

  PoolingStream(const Options& options, std::shared_ptr<EmbeddingSink> sink)
      : options_(options), sink_(std::move(sink)) {}

  Verdict on_token(const TokenEvent& event) override;
  void on_hidden(uint32_t position, std::span<const float> state) override;
  void on_scores(std::span<const float> scores) override;
  void on_finish(FinishReason reason, const Usage& usage) override;
  void on_no_memory() override { sink_->on_embedding(std::nullopt, {}); }

 private:
  std::vector<float> pooled() const;

  const Options options_;
  const std::shared_ptr<EmbeddingSink> sink_;  // shared with the caller
  std::vector<double> sums_;
  uint32_t n_states_ = 0;  // in the sum
};

}  // namespace kvik
