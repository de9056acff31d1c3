#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request/request.h"

namespace kvik {

// A request for the embedding of one text.
struct EmbeddingRequest {
  // Pooling of the hidden states after the last norm. kMean: their mean, the better choice for
  // models that were not trained for embeddings. kLast: the last token's state, for models that
  // were trained with it.
  enum class Pooling { kMean, kLast };

  Request engine;  // prompt, cache salt, tenant and priority, passed to the engine
  Pooling pooling = Pooling::kMean;
  // Number of leading dimensions to return; absent: all. The truncated vector is normalized to
  // length 1 again. Models trained for truncation lose little accuracy (Kusupati et al. 2022);
  // others may lose more.
  std::optional<uint32_t> n_dims;
  std::optional<std::string> model;
};

// Receives the result of an EmbeddingRequest. Called once, on the engine thread; must not block.
class EmbeddingSink {
 public:
  virtual ~EmbeddingSink() = default;
  // `embedding` is normalized to length 1; nullopt if the request did not complete.
  virtual void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) = 0;
};

}  // namespace kvik
