#pragma once

#include <cstdint>

namespace kvik {

// Layer groups that a model has at most.
inline constexpr uint32_t kMaxLayerGroups = 16;

}  // namespace kvik
