#pragma once

#include <string_view>

namespace kvik {

// Returns whether the place between the two pieces of a text is in a written date or time of day,
// or right before one.
bool is_in_date(std::string_view before, std::string_view after);

}  // namespace kvik
