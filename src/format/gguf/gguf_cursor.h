#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/quoted.h"

namespace kvik {

// The most bytes that a header (keys and tensor table) may have: ten times the largest known. It
// bounds what a hostile or sparse file can make us allocate.
inline constexpr size_t kMaxHeaderBytes = size_t{128} << 20;

// What is being read, for the message where the header ends too early: "the value of" 'a.key'.
struct HeaderPart {
  std::string_view what;
  std::string_view name = {};
};

// Reads the little-endian values of a GGUF header one after another, never past its end.
// Errors are kCorrupt and name the part and the byte. Borrows the bytes.
class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> file) : file_(file) {}

  size_t position() const { return position_; }

  // Bytes that the rest of the header can have at most.
  size_t bytes_left() const;

  template <class T>
  Result<T> number(HeaderPart part) {
    static_assert(std::endian::native == std::endian::little);
    auto bytes = take(sizeof(T), part);
    if (!bytes) return std::unexpected<Error>(std::move(bytes.error()));
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }

  // A 64-bit length and that many bytes. The view is into the file.
  Result<std::string_view> string(HeaderPart part);

  Result<std::span<const std::byte>> take(uint64_t n_bytes, HeaderPart part);

 private:
  std::span<const std::byte> file_;
  size_t position_ = 0;
};

}  // namespace kvik
