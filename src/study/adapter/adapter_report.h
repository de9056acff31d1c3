#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// What an adapter changes of a model: `adapter` is "PATH[:SCALE]". Nothing of the model is loaded.
Result<std::string> adapter_report(const std::string& model, const std::string& adapter);

}  // namespace kvik
