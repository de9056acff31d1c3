#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/model_bytes.h"
#include "format/quoted.h"

namespace kvik {

// Maximum size of a header (keys and tensor table): ten times the largest known one. It bounds what
// a hostile or sparse file can make us allocate.
inline constexpr size_t kMaxHeaderBytes = ModelBytes::kMaxHeadBytes;

// The item being read, for the message when the header ends too early: "the value of" 'a.key'.
struct HeaderPart {
  std::string_view what;
  std::string_view name = {};
};

// Reads consecutive little-endian values of a GGUF header, never beyond its end. Errors are
// kCorrupt with the item and the offset, or those of reading. Borrows the bytes.
class GgufCursor {
 public:
  explicit GgufCursor(ModelBytes& file) : file_(file) {}

  size_t position() const { return position_; }

  // Returns the maximum number of bytes that can follow in the header.
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

  // Reads a 64-bit length and that many bytes. The view is into the file's head.
  Result<std::string_view> string(HeaderPart part);

  Result<ModelBytes::Bytes> take(uint64_t n_bytes, HeaderPart part);

 private:
  ModelBytes& file_;
  size_t position_ = 0;
};

}  // namespace kvik
