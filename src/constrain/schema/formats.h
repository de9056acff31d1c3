#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// The strings of a format; nothing where the format is not known.
std::optional<Regular> format_texts(RegularPool& pool, std::string_view format);

}  // namespace kvik::constrain
