#include "tensor/blocks.h"

#include <cstring>

#include "base/check.h"
#include "tensor/blocks_32.h"
#include "tensor/group_blocks.h"
#include "tensor/half.h"
#include "tensor/k_blocks.h"
#include "tensor/low_bit_blocks.h"

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
    case ElementType::kQ4_1:
    case ElementType::kQ5_0:
    case ElementType::kQ5_1:
    case ElementType::kQ2_K:
    case ElementType::kQ3_K:
    case ElementType::kIQ4_NL:
    case ElementType::kIQ4_XS:
      return true;
    default:
      return is_int_group(type);
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
    case ElementType::kQ4_1:
      dequantize_q4_1(bytes, out);
      return;
    case ElementType::kQ5_0:
      dequantize_q5_0(bytes, out);
      return;
    case ElementType::kQ5_1:
      dequantize_q5_1(bytes, out);
      return;
    case ElementType::kQ2_K:
      dequantize_q2_k(bytes, out);
      return;
    case ElementType::kQ3_K:
      dequantize_q3_k(bytes, out);
      return;
    case ElementType::kIQ4_NL:
      dequantize_iq4_nl(bytes, out);
      return;
    case ElementType::kIQ4_XS:
      dequantize_iq4_xs(bytes, out);
      return;
    default:
      dequantize_int_groups(type, bytes, out);
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
    case ElementType::kQ4_1:
      quantize_q4_1(values, out);
      return;
    case ElementType::kQ5_0:
      quantize_q5_0(values, out);
      return;
    case ElementType::kQ5_1:
      quantize_q5_1(values, out);
      return;
    case ElementType::kQ2_K:
      quantize_q2_k(values, out);
      return;
    case ElementType::kQ3_K:
      quantize_q3_k(values, out);
      return;
    case ElementType::kIQ4_NL:
      quantize_iq4_nl(values, out);
      return;
    case ElementType::kIQ4_XS:
      quantize_iq4_xs(values, out);
      return;
    default:
      quantize_int_groups(type, values, out);
  }
}

}  // namespace kvik
