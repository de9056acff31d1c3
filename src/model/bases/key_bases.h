#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "tensor/kv_type.h"

namespace kvik {

class Model;

// The bases in which int8 and int4 pages store K and V of each layer (docs/design/attention.md).
//
// Trained models have dimensions of K that are 10 to 100 times larger than the others. A scale per
// token has to fit the largest dimension and loses the small ones. Therefore the mean of K is
// subtracted, which adds the same amount to all scores of a query, and K is divided by the fourth
// root of its deviation, rounded to a power of two, by which the query is multiplied instead. What
// is stored as int8 is also rotated; int4 values are rotated by the pages themselves.
//
// Immutable. Latent K (MLA) is stored unchanged.
class KeyBases {
 public:
  KeyBases() = default;  // for pages that store heads unchanged

  // Derives the bases for pages of that type from the statistics that were measured when the model
  // was loaded, which int8 and int4 require.
  KeyBases(const Model& model, Backend& backend, KvType type);
  // Returns the bytes of the bases of such a model for pages of that type.
  static uint64_t bytes(const ModelConfig& config, KvType type);

  // Returns whether this layer's K and V are stored in a basis of their own.
  bool has(uint32_t layer) const { return layer < layers_.size() && layers_[layer].is_measured; }
  // Returns whether V, and therefore the output of the heads, is in another basis as well.
  bool has_values(uint32_t layer) const { return has(layer) && rotates_values_; }

  HeadBasis keys(uint32_t layer) const;
  HeadBasis queries(uint32_t layer) const;
  HeadBasis values(uint32_t layer) const;
  HeadBasis outputs(uint32_t layer) const;

 private:
  struct Layer {
    bool is_measured = false;
    uint32_t head_dim = 0, group = 1;
    // Offset of the layer's floats: centers, then factors of K, then factors of queries, [kv_dim]
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
