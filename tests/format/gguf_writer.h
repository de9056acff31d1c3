#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/tensor_view.h"

namespace kvik {

// Writes small GGUF files into memory for tests, including invalid ones: every field of the header
// can be overridden.
//
//   GgufWriter file;
//   file.key("llama.block_count", uint32_t{2});
//   file.tensor("output_norm.weight", {64}, ones);
//   auto source = open_gguf_bytes("test", bytes);   // bytes = file.bytes(), kept by the caller
class GgufWriter {
 public:
  struct Tensor {
    std::string name;
    uint32_t type_id;
    std::vector<uint64_t> axes;  // as in the file: fastest axis first
    std::vector<std::byte> data;
    std::optional<uint64_t> offset = {};  // if it differs from the next free offset
  };

  uint32_t version = 3;
  uint64_t alignment = 32;  // alignment of the data; the caller adds the key
  std::optional<uint64_t> n_keys_claimed = {};
  std::optional<uint64_t> n_tensors_claimed = {};

  // Adds a value, or an array of values, of the GGUF type that corresponds to the C++ type.
  template <class T>
  GgufWriter& key(std::string_view name, const T& value) {
    std::vector<std::byte> payload;
    put_value(payload, value);
    return raw_key(name, type_id_of<T>(), payload);
  }
  GgufWriter& key(std::string_view name, const char* value) {
    return key(name, std::string(value));
  }

  template <class T>
  GgufWriter& key(std::string_view name, const std::vector<T>& values) {
    std::vector<std::byte> payload;
    put(payload, type_id_of<T>());
    put(payload, uint64_t{values.size()});
    for (const auto& value : values) put_value(payload, static_cast<T>(value));
    return raw_key(name, kArrayType, payload);
  }

  GgufWriter& raw_key(std::string_view name, uint32_t type_id, std::span<const std::byte> payload) {
    put_string(keys_, name);
    put(keys_, type_id);
    keys_.insert(keys_.end(), payload.begin(), payload.end());
    ++n_keys_;
    return *this;
  }

  // Adds a tensor. shape: last axis fastest. The reference is valid until the next tensor is added.
  Tensor& tensor(std::string name, ElementType type, std::vector<uint64_t> shape,
                 std::span<const std::byte> data) {
    tensors_.push_back({std::move(name), traits(type).gguf_id,
                        std::vector<uint64_t>(shape.rbegin(), shape.rend()),
                        std::vector<std::byte>(data.begin(), data.end())});
    return tensors_.back();
  }

  // Adds a tensor with the values, stored as `type`.
  Tensor& tensor(std::string name, std::vector<uint64_t> shape, std::span<const float> values,
                 ElementType type = ElementType::kF32) {
    const auto n_bytes = bytes_of(type, shape);
    CHECK(n_bytes.has_value());
    std::vector<std::byte> data(*n_bytes);
    quantize_row(type, values, data.data());
    return tensor(std::move(name), type, std::move(shape), data);
  }

  // Returns the whole file, without padding after the last tensor.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    for (const char c : std::string_view("GGUF")) put(out, c);
    put(out, version);
    put(out, n_tensors_claimed.value_or(tensors_.size()));
    put(out, n_keys_claimed.value_or(n_keys_));
    out.insert(out.end(), keys_.begin(), keys_.end());
    std::vector<std::byte> data;
    for (const Tensor& t : tensors_) {
      data.resize(aligned(data.size()));
      put_string(out, t.name);
      put(out, static_cast<uint32_t>(t.axes.size()));
      for (const uint64_t extent : t.axes) put(out, extent);
      put(out, t.type_id);
      put(out, t.offset.value_or(data.size()));
      data.insert(data.end(), t.data.begin(), t.data.end());
    }
    if (tensors_.empty()) return out;
    out.resize(aligned(out.size()));
    out.insert(out.end(), data.begin(), data.end());
    return out;
  }

  // Appends `value` to `out` in little endian.
  template <class T>
  static void put(std::vector<std::byte>& out, const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), from, from + sizeof(T));
  }
  static void put_string(std::vector<std::byte>& out, std::string_view text) {
    put(out, uint64_t{text.size()});
    for (const char c : text) put(out, c);
  }

  static constexpr uint32_t kArrayType = 9;

 private:
  template <class T>
  static constexpr uint32_t type_id_of() {
    if constexpr (std::same_as<T, bool>) return 7;
    if constexpr (std::same_as<T, std::string>) return 8;
    if constexpr (std::same_as<T, float>) return 6;
    if constexpr (std::same_as<T, double>) return 12;
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      constexpr uint32_t kUnsignedIds[] = {0, 2, 4, 10};  // for 8, 16, 32 and 64 bits
      constexpr size_t kWidth = sizeof(T) == 8 ? 3 : sizeof(T) / 2;
      return kUnsignedIds[kWidth] + (std::is_signed_v<T> ? 1 : 0);
    }
  }

  template <class T>
  static void put_value(std::vector<std::byte>& out, const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      put_string(out, value);
    } else {
      static_assert(std::is_arithmetic_v<T>);
      put(out, value);
    }
  }

  uint64_t aligned(uint64_t n) const { return (n + alignment - 1) / alignment * alignment; }

  std::vector<std::byte> keys_;
  uint64_t n_keys_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace kvik
