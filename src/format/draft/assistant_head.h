#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/draft/joined_head.h"
#include "format/model_source.h"

namespace kvik {

// Returns whether the source is an assistant (AssistantConfig), which is no model by itself.
bool is_assistant(const ModelSource& source);
// Returns whether the folder's config.json is that of an assistant of Transformers.
bool is_assistant_folder(const std::string& path);

// Opens such a folder. The source has the tensors and keys of a GGUF file of the assistant. Errors:
// those of hf::open_folder(), and kUnsupported for a key or tensor that it would need.
Result<std::unique_ptr<ModelSource>> open_assistant_folder(const std::string& path);

// Returns the model with the assistant, as with_eagle_head() does. Errors: those of
// add_assistant(), and kCorrupt or kUnsupported for a tensor that is missing, unknown or of another
// shape; `model` is unchanged then.
Result<std::unique_ptr<ModelSource>> with_assistant(std::unique_ptr<ModelSource>& model,
                                                    std::unique_ptr<ModelSource> source,
                                                    const HeadLimits& limits);

}  // namespace kvik
