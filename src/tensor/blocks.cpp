#include "tensor/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/k_blocks.h"

namespace kvik {
namespace {

template <class T>
T load(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, size_t index, const T& value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

void dequantize_q8_0(const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<BlockQ8_0>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < kBlock32; ++i) out[b * kBlock32 + i] = scale * block.quants[i];
  }
}

void dequantize_q4_0(const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<BlockQ4_0>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < 16; ++i) {
      out[b * kBlock32 + i] = scale * ((block.nibbles[i] & 15) - 8);
      out[b * kBlock32 + 16 + i] = scale * ((block.nibbles[i] >> 4) - 8);
    }
  }
}

void quantize_q8_0(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    float peak = 0;
    for (const float v : x) peak = std::max(peak, std::fabs(v));
    const float scale = peak / 127.0f;
    BlockQ8_0 block{f32_to_f16(scale), {}};
    for (size_t i = 0; i < kBlock32; ++i) {
      block.quants[i] = scale > 0 ? static_cast<int8_t>(std::lround(x[i] / scale)) : int8_t{0};
    }
    store(out, b, block);
  }
}

void quantize_q4_0(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    float peak = 0;  // the value of largest magnitude, with its sign
    for (const float v : x) peak = std::fabs(v) > std::fabs(peak) ? v : peak;
    const float scale = peak / -8.0f;
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    const auto level = [&](float v) {
      return static_cast<uint8_t>(std::clamp(v * inverse + 8.5f, 0.0f, 15.0f));
    };
    BlockQ4_0 block{f32_to_f16(scale), {}};
    for (size_t i = 0; i < 16; ++i) {
      block.nibbles[i] = static_cast<uint8_t>(level(x[i]) | (level(x[i + 16]) << 4));
    }
    store(out, b, block);
  }
}

}  // namespace

bool can_dequantize(ElementType type) {
  switch (type) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kQ8_0:
    case ElementType::kQ4_0:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out) {
  switch (type) {
    case ElementType::kF32:
      std::memcpy(out.data(), bytes, out.size_bytes());
      return;
    case ElementType::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = f16_to_f32(load<uint16_t>(bytes, i));
      return;
    case ElementType::kBF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_f32(load<uint16_t>(bytes, i));
      return;
    case ElementType::kQ8_0:
      dequantize_q8_0(bytes, out);
      return;
    case ElementType::kQ4_0:
      dequantize_q4_0(bytes, out);
      return;
    case ElementType::kQ4_K:
      dequantize_q4_k(bytes, out);
      return;
    case ElementType::kQ5_K:
      dequantize_q5_k(bytes, out);
      return;
    case ElementType::kQ6_K:
      dequantize_q6_k(bytes, out);
      return;
    default:
      CHECK(can_dequantize(type));
  }
}

void quantize_row(ElementType type, std::span<const float> values, std::byte* out) {
  switch (type) {
    case ElementType::kF32:
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    case ElementType::kF16:
      for (size_t i = 0; i < values.size(); ++i) store(out, i, f32_to_f16(values[i]));
      return;
    case ElementType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) store(out, i, f32_to_bf16(values[i]));
      return;
    case ElementType::kQ8_0:
      quantize_q8_0(values, out);
      return;
    case ElementType::kQ4_0:
      quantize_q4_0(values, out);
      return;
    case ElementType::kQ4_K:
      quantize_q4_k(values, out);
      return;
    case ElementType::kQ5_K:
      quantize_q5_k(values, out);
      return;
    case ElementType::kQ6_K:
      quantize_q6_k(values, out);
      return;
    default:
      CHECK(can_dequantize(type));
  }
}

}  // namespace kvik
