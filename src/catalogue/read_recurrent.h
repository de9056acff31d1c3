#pragma once

#include "base/result.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Puts what a family's keys say of recurrent layers in the place of their attention, and takes from
// layers the half that they lack. The layers of `config` are there, all of them with attention.
// Errors: kCorrupt for a missing key or a value that cannot be, kUnsupported for a geometry that is
// not computed.
Result<void> read_recurrent_layers(const KeyReader& keys, const Family& family,
                                   ModelConfig& config);

}  // namespace kvik
