#pragma once

#include <optional>
#include <string_view>

#include "constrain/code_points.h"

namespace kvik::constrain {

// The characters of a property as regular expressions name it ("L", "Script=Greek", "Alphabetic").
std::optional<CodePointSet> unicode_class(std::string_view name);

// The set and all that differs from it by the case of letters alone.
CodePointSet without_case(const CodePointSet& set);

}  // namespace kvik::constrain
