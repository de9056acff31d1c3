#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvik {

using Sha256Digest = std::array<std::byte, 32>;

// SHA-256 of what is added, one piece behind the other; for names that must hold against anybody.
class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> bytes);
  void add_number(uint64_t number);      // 8 bytes, little endian
  void add_text(std::string_view text);  // its length, then its bytes: no two lists read the same

  // Once.
  Sha256Digest finish();

 private:
  struct FreeState {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, FreeState> state_;  // OpenSSL's, whose header is slow to read
};

// Two lower-case digits a byte.
std::string to_hex(std::span<const std::byte> bytes);

// XXH3, 128 bits: as fast as memory. Finds accidents, not forgeries.
struct Hash128 {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 xxh3_128(std::span<const std::byte> bytes);

}  // namespace kvik
