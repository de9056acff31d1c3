#pragma once

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/model_config.h"

namespace kvik {

// "general.architecture" of the file of a Gemma 4 assistant, and the prefix of its keys.
inline constexpr const char* kAssistantArchitecture = "gemma4-assistant";

// Returns whether the metadata of a model include those of an assistant.
bool has_assistant(const Metadata& metadata);

// Adds the layers of the assistant to the config of the model. Errors: kCorrupt for a missing key
// or an impossible value, kUnsupported for an assistant and a model that do not fit each other.
Result<void> add_assistant(const Metadata& metadata, ModelConfig& config);

}  // namespace kvik
