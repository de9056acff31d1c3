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

// Incremental SHA-256, for names that must resist attacks.
class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> bytes);
  void add_number(uint64_t number);  // 8 bytes, little endian
  // Adds the length and the bytes, so that different lists never give the same input.
  void add_text(std::string_view text);

  // May be called once.
  Sha256Digest finish();

 private:
  struct FreeState {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, FreeState> state_;  // EVP_MD_CTX of OpenSSL; its header is slow to compile
};

// Returns the name that Git gives to a file with this content: SHA-1 of a header and the content,
// in hexadecimal digits.
std::string git_blob_id(std::string_view content);

// Returns two lowercase hexadecimal digits per byte.
std::string to_hex(std::span<const std::byte> bytes);

// XXH3 with 128 bits: as fast as memory. Detects accidental changes, not forgeries.
struct Hash128 {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 xxh3_128(std::span<const std::byte> bytes);

}  // namespace kvik
