#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvik {

// Returns a fast hash of a short text for tables in memory: halves of 128-bit products, after
// wyhash (Wang Yi). Not cryptographic.
inline uint64_t hash_text(std::string_view text) {
  constexpr uint64_t kFirst = 0xA0761D6478BD642F, kSecond = 0xE7037ED1A0B428DB;
  const auto mix = [](uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const auto read = [](const char* bytes, size_t n) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, n);
    return value;
  };
  const char* bytes = text.data();
  size_t n = text.size();
  uint64_t hash = n * kSecond;
  for (; n > 16; bytes += 16, n -= 16) {
    hash = mix(read(bytes, 8) ^ kFirst ^ hash, read(bytes + 8, 8) ^ kSecond);
  }
  uint64_t first = 0, last = 0;
  if (n >= 8) {
    first = read(bytes, 8);
    last = read(bytes + n - 8, 8);
  } else if (n >= 4) {
    first = read(bytes, 4);
    last = read(bytes + n - 4, 4);
  } else if (n > 0) {
    first = read(bytes, 1) << 16 | read(bytes + n / 2, 1) << 8 | read(bytes + n - 1, 1);
  }
  return mix(first ^ kFirst ^ hash, last ^ kSecond);
}

}  // namespace kvik
