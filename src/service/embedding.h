#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/request/request.h"

namespace kvik {

// One text as a point in the model's space.
struct EmbeddingRequest {
  // Of the hidden states behind the last norm: their mean, which says most of a model that was not
  // trained for this; or that of the last token, for one that was.
  enum class Pooling { kMean, kLast };

  std::vector<TokenId> prompt;
  Pooling pooling = Pooling::kMean;
  // The first so many dimensions; absent: all. What is left is as long as before: 1. Models trained
  // for it lose little (Kusupati et al. 2022); others lose what they lose.
  std::optional<uint32_t> n_dims;
  std::string tenant;
  int32_t priority = 0;
  std::optional<std::string> model;
};

// Called once, on the engine thread; must not block.
class EmbeddingSink {
 public:
  virtual ~EmbeddingSink() = default;
  // Of length 1; nullopt where it was cut off.
  virtual void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) = 0;
};

// Pools one prompt's hidden states as they come. Sums are of doubles in the order of positions: the
// result is the same bits whatever the chunks. Engine thread only.
class PoolingStream final : public EventSink {
 public:
  PoolingStream(EmbeddingRequest::Pooling pooling, std::optional<uint32_t> n_dims,
                std::shared_ptr<EmbeddingSink> sink)
      : pooling_(pooling), n_dims_(n_dims), sink_(std::move(sink)) {}

  Verdict on_token(const TokenEvent& event) override;
  void on_hidden(uint32_t position, std::span<const float> state) override;
  void on_finish(FinishReason reason, const Usage& usage) override;

 private:
  std::vector<float> pooled() const;

  const EmbeddingRequest::Pooling pooling_;
  const std::optional<uint32_t> n_dims_;
  const std::shared_ptr<EmbeddingSink> sink_;  // shared with who asked
  std::vector<double> sums_;
};

}  // namespace kvik
