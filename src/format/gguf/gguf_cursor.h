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

// The most bytes that a header (keys and tensor table) may have: ten times the largest known. It
// bounds what a hostile or sparse file can make us allocate.
inline constexpr size_t kMaxHeaderBytes = ModelBytes::kMaxHeadBytes;

// What is being read, for the message where the header ends too early: "the value of" 'a.key'.
struct HeaderPart {
  std::string_view what;
  std::string_view name = {};
};

// Reads the little-endian values of a GGUF header one after another, never past its end.
// Errors are kCorrupt and name the part and the byte, or those of reading. Borrows the bytes.
class GgufCursor {
 public:
  explicit GgufCursor(ModelBytes& file) : file_(file) {}

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

  // A 64-bit length and that many bytes. The view is into the file's head.
  Result<std::string_view> string(HeaderPart part);

  Result<ModelBytes::Bytes> take(uint64_t n_bytes, HeaderPart part);

 private:
  ModelBytes& file_;
  size_t position_ = 0;
};

}  // namespace kvik
