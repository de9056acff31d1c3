#pragma once

#include "base/result.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Replaces the attention of the layers that are recurrent according to the keys. All layers of
// `config` must have attention. Errors: kCorrupt for a missing key or an impossible value,
// kUnsupported for an unsupported geometry.
Result<void> read_recurrent_layers(const KeyReader& keys, const Family& family,
                                   ModelConfig& config);

}  // namespace kvik
