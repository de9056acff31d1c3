#pragma once

#include <memory>

#include "base/result.h"
#include "format/draft/joined_head.h"
#include "format/model_source.h"

namespace kvik {

// Returns whether the source is an EAGLE-3 head (EagleConfig), which is no model by itself.
bool is_eagle_head(const ModelSource& source);

// Returns the model with the head, which takes the place of the model's own MTP head: the tensors
// of the head become those of the layer after the last one, and its keys are added to the model's.
// `source` has the tensors of a GGUF file of llama.cpp. Errors: those of add_eagle_head(), and
// kCorrupt or kUnsupported for a tensor that is missing, unknown or of another shape; `model` is
// unchanged then.
Result<std::unique_ptr<ModelSource>> with_eagle_head(std::unique_ptr<ModelSource>& model,
                                                     std::unique_ptr<ModelSource> source,
                                                     const HeadLimits& limits);

}  // namespace kvik
