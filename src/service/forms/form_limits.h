#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// The error of an answer whose grammar took more than its limits allow (FinishReason::kExhausted).
// `param` is the request field that has the grammar.
Error exhausted_error(const std::string& param);

}  // namespace kvik
