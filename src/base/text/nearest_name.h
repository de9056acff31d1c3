#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvik {

// Returns the known name with the smallest edit distance from `name` (insertion, deletion,
// replacement, or swap of adjacent letters; case is ignored), or an empty string if none is near:
// at most a third of the letters may differ, but always one. Names of more than 128 bytes have no
// near name.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

// Returns "; did you mean NAME?" for the nearest name, or an empty string.
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace kvik
