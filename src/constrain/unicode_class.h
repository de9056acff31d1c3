#pragma once

#include <optional>
#include <string_view>

#include "constrain/code_points.h"

namespace kvik::constrain {

// Returns the characters with a Unicode property, named as in regular expressions ("L",
// "Script=Greek", "Alphabetic"); std::nullopt if the property is not known.
std::optional<CodePointSet> unicode_class(std::string_view name);

// Returns the set and all characters that differ from its characters only in case.
CodePointSet close_over_case(const CodePointSet& set);

}  // namespace kvik::constrain
