#pragma once

#include <optional>
#include <string_view>

namespace kvik::constrain {

// Returns the terminal of `%import common.NAME` as a regular expression.
std::optional<std::string_view> lark_common_terminal(std::string_view name);

}  // namespace kvik::constrain
