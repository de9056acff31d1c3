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
  // Matrices that map the pooled state to another dimension and back, columns first; borrowed.
  // Empty: there are none.
  struct Dense {
    std::span<const float> out, back;
  };

  struct Options {
    Pooling pooling = Pooling::kMean;
    std::optional<uint32_t> n_dims = {};  // absent: all
    EmbeddingRequest::Norm norm = {};
    // [model_dim], of the score that is the result with kRank; borrowed. Empty: on_scores() has it.
    std::span<const float> score_weights = {};
    Dense dense = {};
  };

  PoolingStream(const Options& options, std::shared_ptr<EmbeddingSink> sink)
      : options_(options), sink_(std::move(sink)) {}

  Verdict on_token(const TokenEvent& event) override;
  void on_hidden(uint32_t position, std::span<const float> state) override;
  void on_scores(std::span<const float> scores) override;
  void on_finish(FinishReason reason, const Usage& usage) override;
  void on_no_memory() override { sink_->on_embedding(std::nullopt, {}); }

 private:
  void score();
  void multiply(std::span<const float> matrix);
  std::vector<float> pooled() const;

  const Options options_;
  const std::shared_ptr<EmbeddingSink> sink_;  // shared with the caller
  std::vector<double> sums_;
  uint32_t n_states_ = 0;  // in the sum
};

}  // namespace kvik
