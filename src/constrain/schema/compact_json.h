#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"

namespace kvik::constrain {

// Return JSON in as few bytes as possible. Numbers are written without exponents if that takes up
// to 400 digits.
std::string compact_json(const Json& json);
std::string compact_json(std::string_view text);  // the JSON string of a text

}  // namespace kvik::constrain
