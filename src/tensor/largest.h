#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace kvik {

// Returns the largest finite value; −infinity if none is finite.
inline float largest_finite(std::span<const float> values) {
  constexpr size_t kLanes = 16;  // independent, so that compilers can vectorize the loop
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  const auto take = [](float& largest, float value) {
    // False for a NaN.
    const float finite = value <= std::numeric_limits<float>::max() ? value : largest;
    largest = finite > largest ? finite : largest;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lanes[lane], values[i + lane]);
  }
  for (; i < values.size(); ++i) take(lanes[0], values[i]);
  return *std::ranges::max_element(lanes);
}

// Returns the index of the largest finite value, the first of equal ones; std::nullopt if none is
// finite.
inline std::optional<uint32_t> index_of_largest(std::span<const float> values) {
  constexpr size_t kBlock = 256;
  std::optional<size_t> place;
  float highest = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const float largest =
        largest_finite(values.subspan(begin, std::min(kBlock, values.size() - begin)));
    if (!(largest > highest)) continue;
    highest = largest;
    place = begin;
  }
  if (!place) return std::nullopt;
  while (values[*place] != highest) ++*place;
  return static_cast<uint32_t>(*place);
}

}  // namespace kvik
