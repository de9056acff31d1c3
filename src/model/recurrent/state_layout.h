#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"

namespace kvik {

// Offsets of the recurrent layers' states in a sequence's state: for each layer the inputs of its
// convolution, then its matrices; for attention with an indexer of blocks the inputs of its keys;
// for attention to entries the newest ones, first the layer's own, then the indexer's; for the MTP
// head the hidden state of the newest token. All values are f32. Without recurrent layers, the
// latter lies in the pages (MtpHiddenPlace).
struct StateLayout {
  // by layer, in floats; other layers take no space
  std::vector<uint64_t> offsets;
  uint64_t ngrams = 0;    // offset of the inputs of the convolution of n-grams
  uint64_t n_floats = 0;  // total size; 0: the model has no state

  uint64_t n_bytes() const { return n_floats * sizeof(float); }
};

StateLayout state_layout(const ModelConfig& config);

}  // namespace kvik
