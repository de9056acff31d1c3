#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Bytes that any program can make, and a hash that any program can compute, for comparisons with
// other implementations.
namespace kvik::testing {

// Returns the highest bytes of a linear congruential generator (Knuth's MMIX).
inline std::vector<std::byte> generated_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  uint64_t state = 1;
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// FNV-1a.
inline uint64_t hash_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

}  // namespace kvik::testing
