#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// Returns a report of what an adapter changes in a model. `adapter` is "PATH[:SCALE]". The model's
// weights are not loaded.
Result<std::string> adapter_report(const std::string& model, const std::string& adapter);

}  // namespace kvik
