#include "backend/layout/packed_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/e4m3.h"
#include "tensor/half.h"
#include "tensor/round.h"

namespace kvik {
namespace {

constexpr size_t kHalvesBytes = sizeof(uint16_t) * kPanelColumns;
// With a larger scale, some factor and level would make an infinite value.
constexpr float kMaxRowScale = 0x1p112f;

// Returns the offset of the four bytes of one column in a group.
size_t place(uint32_t group, uint32_t column) {
  return (size_t{group} * kPanelColumns + column) * 4;
}

// The levels of one column in a panel: separate bytes, four adjacent ones per group. Single bits
// are four adjacent bits per group.
template <uint32_t kBits>
constexpr Plane kPlane = {.bits = kBits,
                          .span = kBits == 1   ? 1
                                  : kBits == 2 ? 4
                                               : 4 * kBits};

template <uint32_t kBits, uint32_t kShift>
void put_part(const uint8_t* levels, uint32_t column, std::byte* at) {
  uint8_t own[4 * kBits] = {};
  Plane plane = kPlane<kBits>;
  plane.shift = kShift;
  BlockWriter::bits(own, levels, plane);
  if constexpr (kBits == 1) {
    for (uint32_t g = 0; g < 8; ++g) {
      const int four = own[g / 2] >> (g % 2 * 4) & 15;
      at[place(g, column) / 8] |= static_cast<std::byte>(four << (column % 2 * 4));
    }
  } else {
    for (uint32_t g = 0; g < kBits; ++g) std::memcpy(at + place(g, column), own + 4 * g, 4);
  }
}

template <uint32_t kBits, uint32_t kShift>
void get_part(const std::byte* at, uint32_t column, uint8_t* levels) {
  uint8_t own[4 * kBits] = {};
  if constexpr (kBits == 1) {
    for (uint32_t g = 0; g < 8; ++g) {
      const int four = std::to_integer<int>(at[place(g, column) / 8]) >> (column % 2 * 4) & 15;
      own[g / 2] = static_cast<uint8_t>(own[g / 2] | four << (g % 2 * 4));
    }
  } else {
    for (uint32_t g = 0; g < kBits; ++g) std::memcpy(own + 4 * g, at + place(g, column), 4);
  }
  Plane plane = kPlane<kBits>;
  plane.shift = kShift;
  BlockReader::bits(own, levels, plane);
}

// Numbers of pairs: [2][32 columns][4] bytes, of which byte t of group g has the low bits of pairs
// 8g + 2t and 8g + 2t + 1; then [2][32 columns] bytes with the fifth bits of eight pairs. The
// functions return the offsets of the bytes of a pair.
size_t nibbles_of_pair(uint32_t pair, uint32_t column) {
  return place(pair / 8, column) + pair % 8 / 2;
}
size_t fifth_bits_of_pair(uint32_t pair, uint32_t column) {
  return place(2, 0) + size_t{pair} / 8 * kPanelColumns + column;
}

void put_pairs(const uint8_t* levels, uint32_t column, std::byte* at) {
  for (uint32_t pair = 0; pair < 16; ++pair) {
    const int number = levels[2 * pair];
    at[nibbles_of_pair(pair, column)] |= static_cast<std::byte>((number & 15) << pair % 2 * 4);
    at[fifth_bits_of_pair(pair, column)] |= static_cast<std::byte>(number >> 4 << pair % 8);
  }
}

void get_pairs(const std::byte* at, uint32_t column, uint8_t* levels) {
  for (uint32_t pair = 0; pair < 16; ++pair) {
    const auto low = std::to_integer<int>(at[nibbles_of_pair(pair, column)]);
    const auto fifths = std::to_integer<int>(at[fifth_bits_of_pair(pair, column)]);
    const int number = (low >> (pair % 2 * 4) & 15) | (fifths >> (pair % 8) & 1) << 4;
    levels[2 * pair] = levels[2 * pair + 1] = static_cast<uint8_t>(number);
  }
}

// All planes of levels that types use: kBits of each level, starting at bit kShift.
template <uint32_t kBits, uint32_t kShift = 0>
constexpr PanelPart kPart = {kBits, kShift, size_t{kBits} * kBlock32 / 8 * kPanelColumns,
                             put_part<kBits, kShift>, get_part<kBits, kShift>};
constexpr PanelPart kParts[] = {
    kPart<8>,    kPart<4>,
    kPart<2>,    kPart<1>,
    kPart<1, 2>, kPart<1, 4>,
    kPart<2, 4>, {kBitsOfPairs, 0, 10 * kPanelColumns, put_pairs, get_pairs}};

PanelPart part_of(uint32_t bits, uint32_t shift) {
  if (bits == 0) return {};
  const auto* found = std::ranges::find_if(
      kParts, [&](const PanelPart& part) { return part.bits == bits && part.shift == shift; });
  CHECK(found != std::end(kParts));
  return *found;
}

using Layout = PackedFormat::Layout;

PackedFormat format_of(ElementType type) {
  if (const FloatFormat* floats = float_format(type)) {
    return {.type = type,
            .layout = traits(type).block_elements > 1 ? Layout::kFp8
                      : floats->n_together == 2       ? Layout::kPairs
                                                      : Layout::kElements};
  }
  const BlockFormat* blocks = block_format(type);
  if (!blocks) return {.type = type};
  if (blocks->packed.level_bits[0] == 0 && blocks->packed.codes.n == 0) return {.type = type};
  const PackedLayout& packed = blocks->packed;
  return {.type = type,
          .layout = Layout::kBlocks,
          .packed = packed,
          .parts = {part_of(packed.level_bits[0], 0),
                    part_of(packed.level_bits[1], packed.level_bits[0])}};
}

// The kernels' tables are the files' levels plus an offset.
static_assert([] {
  for (int i = 0; i < 16; ++i) {
    if (kIq4Operands[i] != kIq4Levels[i] + 128) return false;
    if (kFp4Operands[i] != kFp4Levels[i] + 128) return false;
    if (kNvFp4Operands[i] != kFp4Levels[i] + 32) return false;
  }
  return true;
}());

// Returns the bytes of one element, or of a pair. The next element of the same column is
// kPanelColumns times as far away.
size_t together_bytes(const PackedFormat& format) {
  return (format.layout == Layout::kPairs ? 2 : 1) * traits(format.type).block_bytes;
}

template <size_t kBytes>
void spread(std::span<const std::byte> row, std::byte* out) {
  for (; row.size() >= kBytes; row = row.subspan(kBytes), out += kBytes * kPanelColumns) {
    std::memcpy(out, row.data(), kBytes);
  }
  if (!row.empty()) std::memcpy(out, row.data(), kBytes / 2);  // the first half of a pair: k is odd
}

bool is_finite_f16(uint16_t bits) { return (bits & 0x7c00u) != 0x7c00u; }

// Returns whether no element has the exponent of infinities and NaN, all ones.
template <class Bits, Bits kExponent>
bool are_finite(std::span<const std::byte> row) {
  Bits bad = 0;  // there is no early end, so that the loop is vectorized
  for (size_t at = 0; at < row.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, row.data() + at, sizeof(bits));
    bad |= static_cast<Bits>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

bool are_finite(ElementType type, std::span<const std::byte> row) {
  if (type == ElementType::kF32) return are_finite<uint32_t, 0x7f800000>(row);
  if (type == ElementType::kF16) return are_finite<uint16_t, 0x7c00>(row);
  CHECK(type == ElementType::kBF16);
  return are_finite<uint16_t, 0x7f80>(row);
}

bool pack_elements(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                   std::byte* panel) {
  const size_t bytes = together_bytes(format);
  bytes == 4 ? spread<4>(row, panel + 4 * column) : spread<2>(row, panel + 2 * column);
  return are_finite(format.type, row);
}

template <size_t kBytes>
const std::byte* collect(const std::byte* in_panel, std::span<std::byte> row) {
  for (size_t at = 0; at < row.size(); at += kBytes, in_panel += kBytes * kPanelColumns) {
    std::memcpy(row.data() + at, in_panel, kBytes);
  }
  return in_panel;
}

void unpack_elements(const PackedFormat& format, const std::byte* panel, uint32_t column,
                     std::span<float> out) {
  constexpr size_t kAtOnce = 64;
  const size_t bytes = together_bytes(format);
  const std::byte* from = panel + column * bytes;
  for (size_t n = 0; !out.empty(); out = out.subspan(n)) {
    n = std::min(kAtOnce, out.size());
    std::byte row[kAtOnce * sizeof(float)];
    const std::span<std::byte> part(row, n * traits(format.type).block_bytes);
    from = bytes == 4 ? collect<4>(from, part) : collect<2>(from, part);
    dequantize_row(format.type, row, out.first(n));
  }
}

void put_half(uint16_t half, uint32_t column, std::byte* halves) {
  std::memcpy(halves + column * sizeof(half), &half, sizeof(half));
}

uint16_t half_at(const std::byte* halves, uint32_t column) {
  uint16_t half;
  std::memcpy(&half, halves + column * sizeof(half), sizeof(half));
  return half;
}

// Bit `column` of a plane that has one for each column.
void put_bit(bool is_set, uint32_t column, std::byte* plane) {
  if (is_set) plane[column / 8] |= std::byte{1} << column % 8;
}
bool bit_at(const std::byte* plane, uint32_t column) {
  return (plane[column / 8] >> column % 8 & std::byte{1}) != std::byte{0};
}
constexpr size_t kBitPlane = kPanelColumns / 8;

// The codes of one column and 32 k, block b of the file's block, with their signs or shifts.
void put_codes(const PackedCodes& planes, const BlockNumbers& numbers, uint32_t b, uint32_t column,
               std::byte* at) {
  const uint16_t* codes = numbers.codes + size_t{b} * planes.n;
  const uint8_t* signs = numbers.signs + size_t{b} * kBlock32 / 8;
  for (uint32_t i = 0; i < planes.n; ++i) {
    at[i * kPanelColumns + column] = static_cast<std::byte>(codes[i] & 255);
    for (uint32_t bit = 0; bit < planes.n_high; ++bit) {
      put_bit((codes[i] >> (8 + bit) & 1) != 0, column, at + planes.high_at(i, bit));
    }
  }
  at += planes.signs_at();
  for (uint32_t i = 0; i < planes.n_shifts; ++i) {
    put_bit(signs[i * kBlock32 / 8 / planes.n_shifts] != 0, column, at + i * kBitPlane);
  }
  if (planes.n_shifts > 0) return;
  for (uint32_t g = 0; g < 8; ++g) {
    const int four = signs[g / 2] >> (g % 2 * 4) & 15;
    at[place(g, column) / 8] |= static_cast<std::byte>(four << (column % 2 * 4));
  }
}

void get_codes(const PackedCodes& planes, const std::byte* at, uint32_t b, uint32_t column,
               BlockNumbers& numbers) {
  uint16_t* codes = numbers.codes + size_t{b} * planes.n;
  uint8_t* signs = numbers.signs + size_t{b} * kBlock32 / 8;
  for (uint32_t i = 0; i < planes.n; ++i) {
    codes[i] = std::to_integer<uint8_t>(at[i * kPanelColumns + column]);
    for (uint32_t bit = 0; bit < planes.n_high; ++bit) {
      const bool is_set = bit_at(at + planes.high_at(i, bit), column);
      if (is_set) codes[i] = static_cast<uint16_t>(codes[i] | 256 << bit);
    }
  }
  at += planes.signs_at();
  for (uint32_t i = 0; i < 4; ++i) {
    if (planes.n_shifts > 0) {
      signs[i] = bit_at(at + i * planes.n_shifts / 4 * kBitPlane, column) ? 1 : 0;
      continue;
    }
    signs[i] = 0;
    for (uint32_t g = 2 * i; g < 2 * i + 2; ++g) {
      const int four = std::to_integer<int>(at[place(g, column) / 8]) >> (column % 2 * 4) & 15;
      signs[i] = static_cast<uint8_t>(signs[i] | four << (g % 2 * 4));
    }
  }
}

bool pack_blocks(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* unit) {
  const BlockFormat& in_file = *block_format(format.type);
  const PackedLayout& packed = in_file.packed;
  const uint32_t n_blocks = traits(format.type).block_elements / kBlock32;
  const bool has_halves = packed.n_halves > 0;
  const bool has_f32 = in_file.row_scale == RowScale::kF32;
  bool is_finite = true;
  BlockNumbers numbers{};
  read_row_scale(in_file, row.data(), numbers);
  row = row.subspan(bytes_of(in_file.row_scale));
  for (; !row.empty(); row = row.subspan(in_file.block.bytes)) {
    read_block(in_file, row.data(), numbers);
    if (has_halves)
      is_finite &=
          has_f32 ? std::abs(numbers.row_scale) < kMaxRowScale : is_finite_f16(numbers.scale);
    if (in_file.has_minimum) is_finite &= is_finite_f16(numbers.minimum);
    if (packed.to_panel) packed.to_panel(numbers);
    if (has_f32) {
      std::memcpy(unit + column * sizeof(float), &numbers.row_scale, sizeof(float));
    } else {
      if (packed.n_halves > 0) put_half(numbers.scale, column, unit);
      if (packed.n_halves == 2) put_half(numbers.minimum, column, unit + kHalvesBytes);
    }
    unit += format.header_bytes();
    for (uint32_t b = 0; b < n_blocks; ++b) {
      uint8_t bytes[3];
      if (packed.bytes.n > 0) packed.bytes.put(numbers, b, bytes);
      for (uint32_t i = 0; i < packed.bytes.n; ++i, unit += kPanelColumns) {
        unit[column] = std::byte{bytes[i]};
      }
      for (const PanelPart& part : format.parts) {
        if (part.bytes > 0) part.put(numbers.levels + b * kBlock32, column, unit);
        unit += part.bytes;
      }
      if (packed.codes.n > 0) put_codes(packed.codes, numbers, b, column, unit);
      unit += packed.codes.bytes();
    }
  }
  return is_finite;
}

void unpack_blocks(const PackedFormat& format, const std::byte* unit, uint32_t column,
                   std::span<float> out) {
  const BlockFormat& in_file = *block_format(format.type);
  const PackedLayout& packed = in_file.packed;
  const uint32_t n = traits(format.type).block_elements;
  BlockNumbers numbers{};
  numbers.zero = in_file.zero;
  numbers.scale = in_file.scale;
  for (size_t begin = 0; begin < out.size(); begin += n) {
    if (in_file.row_scale == RowScale::kF32) {
      std::memcpy(&numbers.row_scale, unit + column * sizeof(float), sizeof(float));
    } else {
      if (packed.n_halves > 0) numbers.scale = half_at(unit, column);
      if (packed.n_halves == 2) numbers.minimum = half_at(unit + kHalvesBytes, column);
    }
    unit += format.header_bytes();
    for (uint32_t b = 0; b < n / kBlock32; ++b) {
      uint8_t bytes[3];
      for (uint32_t i = 0; i < packed.bytes.n; ++i, unit += kPanelColumns) {
        bytes[i] = std::to_integer<uint8_t>(unit[column]);
      }
      if (packed.bytes.n > 0) packed.bytes.get(bytes, b, numbers);
      for (const PanelPart& part : format.parts) {
        if (part.bytes > 0) part.get(unit, column, numbers.levels + b * kBlock32);
        unit += part.bytes;
      }
      if (packed.codes.n > 0) get_codes(packed.codes, unit, b, column, numbers);
      unit += packed.codes.bytes();
    }
    if (packed.codes.n > 0) look_up_codes(in_file.codebook, numbers);
    if (packed.from_panel) packed.from_panel(numbers);
    decode_block(in_file, numbers, out.subspan(begin, n));
  }
}

// The kernels read E4M3 as f16, which makes numbers too small by a factor of 256, so the scales are
// stored times 256.
bool pack_fp8(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
              std::byte* unit) {
  bool is_finite = true;
  const size_t block_bytes = traits(format.type).block_bytes;
  for (; !row.empty(); row = row.subspan(block_bytes), unit += format.unit_bytes()) {
    float scale;
    std::memcpy(&scale, row.data(), sizeof(scale));
    scale *= 256.0f;
    is_finite &= std::isfinite(scale);
    std::memcpy(unit + column * sizeof(scale), &scale, sizeof(scale));
    std::byte* number = unit + kPanelColumns * sizeof(scale) + column;
    for (const std::byte b : row.subspan(sizeof(scale), block_bytes - sizeof(scale))) {
      *number = b;
      is_finite &= (b & std::byte{0x7f}) != std::byte{0x7f};  // NaN
      number += kPanelColumns;
    }
  }
  return is_finite;
}

void unpack_fp8(const PackedFormat& format, const std::byte* unit, uint32_t column,
                std::span<float> out) {
  const size_t n = traits(format.type).block_elements;
  for (; !out.empty(); out = out.subspan(n), unit += format.unit_bytes()) {
    float scale;
    std::memcpy(&scale, unit + column * sizeof(scale), sizeof(scale));
    const std::byte* number = unit + kPanelColumns * sizeof(scale) + column;
    for (size_t i = 0; i < n; ++i, number += kPanelColumns) {
      out[i] = scale * (e4m3_to_f32(std::to_integer<uint8_t>(*number)) * 0x1p-8f);
    }
  }
}

struct Packing {
  bool (*pack)(const PackedFormat&, std::span<const std::byte>, uint32_t, std::byte*);
  void (*unpack)(const PackedFormat&, const std::byte*, uint32_t, std::span<float>);
};
Packing packing_of(const PackedFormat& format) {
  if (format.layout == Layout::kBlocks) return {pack_blocks, unpack_blocks};
  if (format.layout == Layout::kFp8) return {pack_fp8, unpack_fp8};
  return {pack_elements, unpack_elements};
}

}  // namespace

const PackedFormat& packed_format(ElementType type) {
  static const auto kByType = [] {
    std::array<PackedFormat, kNumElementTypes> by_type;
    for (const ElementTraits& t : element_types()) {
      by_type[static_cast<size_t>(t.type)] = format_of(t.type);
    }
    return by_type;
  }();
  return kByType[static_cast<size_t>(type)];
}

size_t panel_bytes(const PackedFormat& format, uint32_t k) {
  CHECK(format.layout != Layout::kNone);
  const ElementTraits& t = traits(format.type);
  if (t.block_elements > 1) return k / t.block_elements * format.unit_bytes();
  return (size_t{k} + k % 2) * kPanelColumns * t.block_bytes;
}

bool pack_column(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* panel) {
  return packing_of(format).pack(format, row, column, panel);
}

void unpack_column(const PackedFormat& format, const std::byte* panel, uint32_t column,
                   std::span<float> out) {
  packing_of(format).unpack(format, panel, column, out);
}

}  // namespace kvik
