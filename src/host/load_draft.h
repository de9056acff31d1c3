#pragma once

#include <string>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

// Puts a draft model beside a loaded one, on the same backend. kInvalidArgument where their
// vocabularies are not the same, with the first token that differs. Logs what memory it takes
// beside an engine of max_running sequences.
Result<void> load_draft(const std::string& spec, LoadedModel& loaded, uint32_t max_running);

}  // namespace kvik
