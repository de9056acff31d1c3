#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// Returns the error of an answer whose grammar exceeded its limits (FinishReason::kExhausted).
// `param` is the request field that contains the grammar.
Error exhausted_error(const std::string& param);

}  // namespace kvik
