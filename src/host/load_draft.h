#pragma once

#include <string>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

// Loads a draft model on the backend of a loaded model. Logs its memory for an engine of
// max_running sequences. Errors: those of open_model() and Model::load(), and kInvalidArgument if
// the vocabularies differ, naming the first different token.
Result<void> load_draft(const std::string& spec, LoadedModel& loaded, uint32_t max_running);

}  // namespace kvik
