#pragma once

#include "base/result.h"
#include "catalogue/model_config.h"
#include "format/hf/config.h"
#include "format/model_source.h"

namespace kvik::hf {

// Reads the config of a folder's model. For some model types no key of config.json says whether an
// MTP layer is there, so its tensors decide; the keys that state it are then added to the metadata.
// Errors: those of read_config().
Result<ModelConfig> read_with_mtp_layer(const ModelSource& tensors, FolderConfig& folder);

}  // namespace kvik::hf
