#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kvik {

// Serializes numbers (8 bytes in the order of this processor), bytes, and texts, each preceded by
// its length.
class RecordWriter {
 public:
  void number(uint64_t number) { bytes(std::as_bytes(std::span(&number, 1))); }
  void bytes(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void text(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a RecordWriter wrote. After the first value that is not whole, all are empty or 0.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t number() {
    uint64_t number = 0;
    const std::string_view all = bytes(sizeof(number));
    if (is_whole_) std::memcpy(&number, all.data(), sizeof(number));
    return number;
  }
  // Returns the next n bytes, borrowed.
  std::string_view bytes(uint64_t n) {
    if (n > rest_.size()) is_whole_ = false;
    if (!is_whole_) return {};
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  std::string text() { return std::string(bytes(number())); }

  bool is_whole() const { return is_whole_; }
  size_t n_left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool is_whole_ = true;
};

}  // namespace kvik
