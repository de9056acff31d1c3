#pragma once

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/model_config.h"

namespace kvik {

// "general.architecture" of an EAGLE-3 head's file, and the prefix of its keys.
inline constexpr const char* kEagleArchitecture = "eagle3";
// Keys that such files lack: the token of each row of the output projection, and whether RoPE pairs
// dimensions half a head apart.
inline constexpr const char* kEagleTokens = "eagle3.kvik.tokens";
inline constexpr const char* kEagleHalves = "eagle3.kvik.rope_halves";
// Tensor "d2t" of a folder has these tokens minus the numbers of the rows.
inline constexpr const char* kEagleOffsets = "eagle3.kvik.has_offsets";

// Returns whether the metadata of a model include those of an EAGLE-3 head.
bool has_eagle_head(const Metadata& metadata);

// Adds the head to the config of the model. Errors: kCorrupt for a missing key or an impossible
// value, kUnsupported for a head or a model that cannot be used together.
Result<void> add_eagle_head(const Metadata& metadata, ModelConfig& config);

}  // namespace kvik
