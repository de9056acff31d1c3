#pragma once

#include <cstdint>

namespace kvik {

// Maximum number of layer groups of a model.
inline constexpr uint32_t kMaxLayerGroups = 16;

}  // namespace kvik
