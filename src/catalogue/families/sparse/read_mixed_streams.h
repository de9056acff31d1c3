#pragma once

#include <cstdint>

#include "base/result.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik::families {

// Reads hyper-connections with a doubly stochastic mix, which are `usual` otherwise, of at least
// n_least streams.
Result<HyperConnectionsConfig> read_mixed_streams(const KeyReader& keys, const ModelConfig& config,
                                                  const SinkhornConfig& usual, uint32_t n_least);

}  // namespace kvik::families
