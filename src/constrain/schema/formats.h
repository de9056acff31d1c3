#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// Returns the strings that a "format" allows; std::nullopt if the format is not known.
std::optional<Regular> format_texts(RegularPool& pool, std::string_view format);

}  // namespace kvik::constrain
