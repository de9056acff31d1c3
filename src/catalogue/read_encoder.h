#pragma once

#include <optional>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Returns the pooling that a file states; std::nullopt if it states none. Errors: kUnsupported for
// an unknown one.
Result<std::optional<Pooling>> read_pooling(const KeyReader& keys);

// Reads what only encoders have into c.encoder, which has the features of the family, and
// c.pooling. Errors: those of read_config().
Result<void> read_encoder(const Metadata& metadata, const KeyReader& keys, ModelConfig& c);

}  // namespace kvik
