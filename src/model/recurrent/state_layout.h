#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"

namespace kvik {

// Where in a sequence's state each recurrent layer keeps its own: its convolution's inputs, then
// its matrices; and the guesser the hidden state of the newest token. All of it is f32.
struct StateLayout {
  std::vector<uint64_t> offsets;  // of each layer, in floats; other layers that attend have none
  uint64_t n_floats = 0;          // 0: no layer of the model has a state

  uint64_t n_bytes() const { return n_floats * sizeof(float); }
};

StateLayout state_layout(const ModelConfig& config);

}  // namespace kvik
