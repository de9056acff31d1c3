#pragma once

#include <optional>
#include <string_view>

namespace kvik::constrain {

// Returns the regular expression of the terminal that `%import common.NAME` imports; std::nullopt
// if there is no such terminal.
std::optional<std::string_view> lark_common_terminal(std::string_view name);

}  // namespace kvik::constrain
