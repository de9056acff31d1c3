#pragma once

#include <string>
#include <string_view>

namespace kvik {

// "cmpl-" → "cmpl-3f9a…": the prefix and 24 random hexadecimal digits. Any thread.
std::string random_id(std::string_view prefix);

}  // namespace kvik
