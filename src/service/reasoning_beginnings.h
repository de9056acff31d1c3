#pragma once

#include <string_view>
#include <vector>

namespace kvik {

// Returns the opening marks of all known reasoning formats.
std::vector<std::string_view> reasoning_beginnings();

}  // namespace kvik
