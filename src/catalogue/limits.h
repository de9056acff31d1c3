#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// Upper bounds of the sizes in a file or folder. No existing model comes close to them. Beyond
// them, a product could overflow 32 bits.
inline constexpr uint64_t kMaxLayers = 1024;
inline constexpr uint64_t kMaxDim = uint64_t{1} << 20;
inline constexpr uint64_t kMaxHeads = 4096;
inline constexpr uint64_t kMaxHeadDim = 1024;
inline constexpr uint64_t kMaxVocabulary = uint64_t{1} << 24;
inline constexpr uint64_t kMaxKernelSize = 16;  // taps of a convolution over tokens
inline constexpr uint32_t kStateLanes = 16;     // heads with a state have a multiple of dimensions
inline constexpr uint64_t kMaxContext = uint64_t{1} << 30;
inline constexpr uint64_t kMaxExperts = 1024;
inline constexpr uint64_t kMaxLabels = 4096;  // scores of a classifier, and token types
inline constexpr size_t kMaxLayerKinds = 8;   // distinct combinations of window and KV heads

}  // namespace kvik
