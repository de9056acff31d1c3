#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik::jinja {

// What stands between the quotes of a string literal, its escapes resolved as Python does; nothing
// where \x, \u or \U lacks its digits.
std::optional<std::string> unescape(std::string_view literal);

}  // namespace kvik::jinja
