#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace kvik {

// Returns the index of the largest finite value, the first of equal ones; std::nullopt if none is
// finite.
inline std::optional<uint32_t> index_of_largest(std::span<const float> values) {
  std::optional<uint32_t> place;
  float highest = -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < values.size(); ++i) {
    // False for a NaN.
    if (!(values[i] > highest && values[i] <= std::numeric_limits<float>::max())) continue;
    highest = values[i];
    place = i;
  }
  return place;
}

}  // namespace kvik
