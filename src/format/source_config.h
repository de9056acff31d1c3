#pragma once

#include "base/result.h"
#include "catalogue/model_config.h"
#include "format/model_source.h"

namespace kvik {

// read_config() of the source's metadata, without a guesser whose tensors are not there, or that
// has an embedding or a head of its own. Errors: those of read_config().
Result<ModelConfig> config_of(const ModelSource& source);

}  // namespace kvik
