#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "tensor/kv_type.h"

namespace kvik {

class Model;

// The bases in which int8 and int4 pages keep K and V of each layer (docs/ATTENTION.md). Trained
// models have dimensions of K that are 10 to 100 times larger than the others; a scale for each
// token is chosen for the largest and loses the small ones. K is kept less its mean, which adds the
// same to all scores of a query, and divided by the fourth root of its deviation, which the query
// is multiplied by. What becomes int8 is also rotated; pages rotate what becomes int4 by
// themselves.
//
// Immutable. Latent K stays as it is.
class KeyBases {
 public:
  KeyBases() = default;  // of pages that keep heads as they are

  // Derives the bases for pages of that type from the statistics that the model was loaded with,
  // which must be there for int8 and int4.
  KeyBases(const Model& model, Backend& backend, KvType type);
  // Returns the bytes of the bases of such a model for pages of that type.
  static uint64_t bytes(const ModelConfig& config, KvType type);

  // Returns true if this layer's K and V are kept in a basis of their own.
  bool has(uint32_t layer) const { return layer < layers_.size() && layers_[layer].is_measured; }
  // Returns true if V, and so the output of the heads, is in another basis as well.
  bool has_values(uint32_t layer) const { return has(layer) && rotates_values_; }

  HeadBasis keys(uint32_t layer) const;
  HeadBasis queries(uint32_t layer) const;
  HeadBasis values(uint32_t layer) const;
  HeadBasis outputs(uint32_t layer) const;

 private:
  struct Layer {
    bool is_measured = false;
    uint32_t head_dim = 0, group = 1;
    // The layer's floats begin here: centers, then factors of K, then those of queries, [kv_dim]
    // each.
    uint64_t offset = 0;
    uint32_t kv_dim = 0;
  };
  const float* floats(uint32_t layer, uint32_t part) const {
    return buffer_.floats() + layers_[layer].offset + size_t{part} * layers_[layer].kv_dim;
  }

  bool rotates_keys_ = false, rotates_values_ = false;
  std::vector<Layer> layers_;
  Buffer buffer_;
};

}  // namespace kvik
