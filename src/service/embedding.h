#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request/request.h"

namespace kvik {

// One text as a point in the model's space.
struct EmbeddingRequest {
  // Of the hidden states behind the last norm: their mean, which says most of a model that was not
  // trained for this; or that of the last token, for one that was.
  enum class Pooling { kMean, kLast };

  Request engine;  // goes to the engine: the prompt, its pages' salt, the tenant and its priority
  Pooling pooling = Pooling::kMean;
  // The first so many dimensions; absent: all. What is left is as long as before: 1. Models trained
  // for it lose little (Kusupati et al. 2022); others lose what they lose.
  std::optional<uint32_t> n_dims;
  std::optional<std::string> model;
};

// Called once, on the engine thread; must not block.
class EmbeddingSink {
 public:
  virtual ~EmbeddingSink() = default;
  // Of length 1; nullopt where it was cut off.
  virtual void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) = 0;
};

}  // namespace kvik
