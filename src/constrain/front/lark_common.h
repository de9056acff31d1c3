#pragma once

#include <optional>
#include <string_view>

namespace kvik::constrain {

// The terminal that `%import common.NAME` stands for, as a regular expression.
std::optional<std::string_view> lark_common_terminal(std::string_view name);

}  // namespace kvik::constrain
