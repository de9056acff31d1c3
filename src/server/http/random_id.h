#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Returns the prefix followed by 24 random hexadecimal digits: "cmpl-" → "cmpl-3f9a…". Any thread.
std::string random_id(std::string_view prefix);

}  // namespace kvik
