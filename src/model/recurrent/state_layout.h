#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"

namespace kvik {

// Offsets of the recurrent layers' states in a sequence's state: for each layer the inputs of its
// convolution, then its matrices; for the MTP head the hidden state of the newest token. All
// values are f32. Without recurrent layers, the latter lies in the pages (MtpHiddenPlace).
struct StateLayout {
  // by layer, in floats; attention layers other than the MTP head take no space
  std::vector<uint64_t> offsets;
  uint64_t n_floats = 0;  // total size; 0: the model has no state

  uint64_t n_bytes() const { return n_floats * sizeof(float); }
};

StateLayout state_layout(const ModelConfig& config);

}  // namespace kvik
