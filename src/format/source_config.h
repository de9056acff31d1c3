#pragma once

#include "base/result.h"
#include "catalogue/model_config.h"
#include "format/model_source.h"

namespace kvik {

// Calls read_config() on the source's metadata. Drops an MTP head or a reranker whose tensors are
// missing. Errors: those of read_config().
Result<ModelConfig> config_of(const ModelSource& source);

}  // namespace kvik
