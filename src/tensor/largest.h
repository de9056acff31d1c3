#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace kvik {

// The place of the largest finite value, the first of equal ones; none where none is finite.
inline std::optional<uint32_t> place_of_largest(std::span<const float> values) {
  std::optional<uint32_t> place;
  float highest = -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < values.size(); ++i) {
    // False of a NaN.
    if (!(values[i] > highest && values[i] <= std::numeric_limits<float>::max())) continue;
    highest = values[i];
    place = i;
  }
  return place;
}

}  // namespace kvik
