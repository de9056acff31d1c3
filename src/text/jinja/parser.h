#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace kvik::jinja {

// Jinja's grammar as Hugging Face sets it up, without templates that load others. Errors: kCorrupt,
// naming the line; also where it nests deeper than kMaxDepth.
Result<Body> parse_template(std::string_view source);

inline constexpr uint32_t kMaxDepth = 200;

}  // namespace kvik::jinja
