#pragma once

#include <cstdint>

namespace kvik {

// Largest dimension of the state in Mamba's recurrence. Kernels hold a channel's state in an array
// of this size.
inline constexpr uint32_t kMaxScanState = 256;

}  // namespace kvik
