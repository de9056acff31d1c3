#include "tensor/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/e4m3.h"
#include "tensor/float_blocks.h"
#include "tensor/half.h"
#include "tensor/round.h"

namespace kvik {
namespace {

template <float (*kToF32)(uint16_t)>
void widen(const std::byte* bytes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + i * sizeof(half), sizeof(half));
    out[i] = kToF32(half);
  }
}

template <uint16_t (*kFromF32)(float)>
void narrow(std::span<const float> values, std::byte* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = kFromF32(values[i]);
    std::memcpy(out + i * sizeof(half), &half, sizeof(half));
  }
}

template <uint32_t kColumns>
void widen_fp8(const std::byte* bytes, std::span<float> out) {
  BlockFp8<kColumns> block;
  for (size_t begin = 0; begin < out.size(); begin += kColumns, bytes += sizeof(block)) {
    std::memcpy(&block, bytes, sizeof(block));
    for (size_t i = 0; i < kColumns; ++i) {
      out[begin + i] = block.scale * e4m3_to_f32(block.numbers[i]);
    }
  }
}

// Converts to 8-bit floats. The scale maps the value of largest magnitude in a block to the largest
// number.
template <uint32_t kColumns>
void narrow_fp8(std::span<const float> values, std::byte* out) {
  BlockFp8<kColumns> block;
  for (size_t begin = 0; begin < values.size(); begin += kColumns, out += sizeof(block)) {
    float peak = 0;
    for (size_t i = 0; i < kColumns; ++i) peak = std::max(peak, std::fabs(values[begin + i]));
    block.scale = peak / kLargestE4m3;
    const float divisor = block.scale != 0 ? block.scale : 1.0f;
    for (size_t i = 0; i < kColumns; ++i) {
      block.numbers[i] = f32_to_e4m3(values[begin + i] / divisor);
    }
    std::memcpy(out, &block, sizeof(block));
  }
}

constexpr FloatFormat kFloats[] = {
    {ElementType::kF32,
     [](const std::byte* bytes, std::span<float> out) {
       std::memcpy(out.data(), bytes, out.size_bytes());
     },
     [](std::span<const float> values, std::byte* out) {
       std::memcpy(out, values.data(), values.size_bytes());
     }},
    {ElementType::kF16, widen<f16_to_f32>, narrow<f32_to_f16>},
    {ElementType::kBF16, widen<bf16_to_f32>, narrow<f32_to_bf16>, 2},
    {ElementType::kFp8, widen_fp8<128>, narrow_fp8<128>},
    {ElementType::kFp8G32, widen_fp8<32>, narrow_fp8<32>},
};

}  // namespace

const FloatFormat* float_format(ElementType type) {
  const auto found = std::ranges::find(kFloats, type, &FloatFormat::type);
  return found == std::end(kFloats) ? nullptr : found;
}

void read_row_scale(const BlockFormat& format, const std::byte* row, BlockNumbers& numbers) {
  if (format.row_scale == RowScale::kF16) std::memcpy(&numbers.scale, row, sizeof(uint16_t));
  if (format.row_scale == RowScale::kF32) std::memcpy(&numbers.row_scale, row, sizeof(float));
}

void set_row_scale(const BlockFormat& format, float scale, BlockNumbers& numbers) {
  if (format.row_scale == RowScale::kF16) numbers.scale = f32_to_f16(scale);
  if (format.row_scale == RowScale::kF32) numbers.row_scale = scale;
}

void write_row_scale(const BlockFormat& format, const BlockNumbers& numbers, std::byte* row) {
  if (format.row_scale == RowScale::kF16) std::memcpy(row, &numbers.scale, sizeof(uint16_t));
  if (format.row_scale == RowScale::kF32) std::memcpy(row, &numbers.row_scale, sizeof(float));
}

float scale_of(const BlockFormat& format, const BlockNumbers& numbers) {
  return format.row_scale == RowScale::kF32 ? numbers.row_scale : format.to_f32(numbers.scale);
}

void read_block(const BlockFormat& format, const std::byte* in_file, BlockNumbers& numbers) {
  numbers.zero = format.zero;
  if (format.row_scale == RowScale::kNone) numbers.scale = format.scale;
  format.block.read(in_file, numbers);
  if (format.codebook.levels) look_up_codes(format.codebook, numbers);
}

void look_up_codes(const Codebook& codebook, BlockNumbers& numbers) {
  for (size_t first = 0; first < kBlock256; first += codebook.n_values) {
    const size_t code = numbers.codes[first / codebook.n_values];
    std::memcpy(numbers.levels + first, codebook.levels + code * codebook.n_values,
                codebook.n_values);
  }
  const bool are_shifts = codebook.signs == CodeSigns::kShifts;
  for (size_t i = 0; i < kBlock256; ++i) {
    uint8_t& level = numbers.levels[i];
    const int signs = numbers.signs[i / 8];
    if (are_shifts) {
      level = static_cast<uint8_t>(level - 2 * signs);
    } else if ((signs >> (i % 8) & 1) != 0) {
      level = static_cast<uint8_t>(-level);  // 128 + x becomes 128 − x
    }
  }
}

void decode_block(const BlockFormat& format, const BlockNumbers& numbers, std::span<float> out) {
  constexpr size_t kPart = 16;  // no sub-block is smaller
  const float scale = scale_of(format, numbers);
  for (size_t begin = 0; begin < out.size(); begin += kPart) {
    const uint8_t* levels = numbers.levels + begin;
    float step = scale;
    float minimum = format.has_minimum ? format.to_f32(numbers.minimum) : 0;
    int shift = 0;
    if (format.sub_block != 0) {
      const size_t s = begin / format.sub_block;
      step *= format.factor_to_f32 ? format.factor_to_f32(numbers.factors[s])
                                   : static_cast<float>(numbers.factor(s, format.min_factor));
      minimum *= -static_cast<float>(numbers.factors[16 + s]);
      if (format.table_shift != 0) shift = format.table_shift * numbers.factors[16 + s];
    }
    float* to = out.data() + begin;
    for (size_t i = 0; i < kPart; ++i) {
      const int level = format.pairs   ? format.pairs[levels[i]][i % 2]
                        : format.table ? format.table[levels[i]] + shift
                                       : levels[i] - numbers.zero;
      to[i] = step * static_cast<float>(level);
    }
    if (!format.has_minimum) continue;  // adding zero would lose the sign of −0
    for (size_t i = 0; i < kPart; ++i) to[i] += minimum;
  }
}

bool can_dequantize(ElementType type) { return float_format(type) || block_format(type); }

void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out) {
  if (const FloatFormat* floats = float_format(type)) return floats->to_f32(bytes, out);
  const BlockFormat* format = block_format(type);
  CHECK(format);
  const size_t n = traits(type).block_elements;
  BlockNumbers numbers;
  read_row_scale(*format, bytes, numbers);
  bytes += bytes_of(format->row_scale);
  for (size_t begin = 0; begin < out.size(); begin += n, bytes += format->block.bytes) {
    read_block(*format, bytes, numbers);
    decode_block(*format, numbers, out.subspan(begin, n));
  }
}

std::optional<uint8_t> invalid_scale(ElementType type, std::span<const std::byte> blocks) {
  const BlockFormat* format = block_format(type);
  if (!format || format->scale_bytes.n == 0) return std::nullopt;
  const auto [n_scales, most] = format->scale_bytes;
  const uint32_t block_bytes = traits(type).block_bytes;
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    for (const std::byte scale : blocks.subspan(at, n_scales)) {
      if (std::to_integer<uint8_t>(scale) > most) return std::to_integer<uint8_t>(scale);
    }
  }
  return std::nullopt;
}

void quantize_row(ElementType type, std::span<const float> values, std::byte* out) {
  if (const FloatFormat* floats = float_format(type)) return floats->from_f32(values, out);
  const BlockFormat* format = block_format(type);
  CHECK(format);
  const size_t n = traits(type).block_elements;
  BlockNumbers numbers;
  if (format->row_scale != RowScale::kNone) {
    set_row_scale(*format, unit_of_shifted_table(*format, values), numbers);
    write_row_scale(*format, numbers, out);
    out += bytes_of(format->row_scale);
  }
  for (size_t begin = 0; begin < values.size(); begin += n, out += format->block.bytes) {
    format->round(*format, values.subspan(begin, n), numbers);
    format->block.write(numbers, out);
  }
}

}  // namespace kvik
