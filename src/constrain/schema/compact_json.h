#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"

namespace kvik::constrain {

// JSON in as few bytes as possible; numbers without exponents where that takes up to 400 digits.
std::string compact_json(const Json& json);
std::string compact_json(std::string_view text);  // of a string

}  // namespace kvik::constrain
