#include "backend/layout/packed_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/e4m3.h"
#include "tensor/half.h"
#include "tensor/round.h"

namespace kvik {
namespace {

constexpr size_t kHalvesBytes = sizeof(uint16_t) * kPanelColumns;

// Four bytes of one column.
size_t place(uint32_t group, uint32_t column) {
  return (size_t{group} * kPanelColumns + column) * 4;
}

// A column's levels are bytes of their own, of which four lie together; of single bits, four bits.
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

template <uint32_t kBits, uint32_t kShift = 0>
constexpr PanelPart kPart = {size_t{kBits} * kBlock32 / 8 * kPanelColumns, put_part<kBits, kShift>,
                             get_part<kBits, kShift>};

constexpr PanelBytes kScaleAndMinimum = {
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      bytes[0] = numbers.factors[b];
      bytes[1] = numbers.factors[16 + b];
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[b] = bytes[0];
      numbers.factors[16 + b] = bytes[1];
    }};
constexpr PanelBytes kScalesOfHalves = {
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      std::memcpy(bytes, numbers.factors + 2 * b, 2);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      std::memcpy(numbers.factors + 2 * b, bytes, 2);
    }};
constexpr PanelBytes kScalesAndMinimaOfHalves = {  // in the halves of bytes
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      for (uint32_t part = 0; part < 2; ++part) {
        const int scale = numbers.factors[2 * b + part];
        bytes[part] = static_cast<uint8_t>(scale | numbers.factors[16 + 2 * b + part] << 4);
      }
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      for (uint32_t part = 0; part < 2; ++part) {
        numbers.factors[2 * b + part] = bytes[part] & 15;
        numbers.factors[16 + 2 * b + part] = bytes[part] >> 4;
      }
    }};
constexpr PanelBytes kSignedScale = {  // of factors that count from −32
    1,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      bytes[0] = static_cast<uint8_t>(numbers.factors[b] - 32);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[b] = static_cast<uint8_t>(bytes[0] + 32);
    }};
constexpr PanelBytes kExponent = {  // the scale
    1,
    [](const BlockNumbers& numbers, uint32_t, uint8_t* bytes) {
      bytes[0] = static_cast<uint8_t>(numbers.scale);
    },
    [](const uint8_t* bytes, uint32_t, BlockNumbers& numbers) { numbers.scale = bytes[0]; }};
constexpr PanelBytes kOffset = {  // 128 less the zero
    1,
    [](const BlockNumbers& numbers, uint32_t, uint8_t* bytes) {
      CHECK(numbers.zero <= 16);
      bytes[0] = static_cast<uint8_t>(128 - numbers.zero);
    },
    [](const uint8_t* bytes, uint32_t, BlockNumbers& numbers) {
      numbers.zero = static_cast<uint16_t>(128 - bytes[0]);
    }};

// q3_k has the opposite sign, and its third bits are set where a level is below zero.
void change_sign(BlockNumbers& numbers) {
  numbers.scale ^= 0x8000u;
  for (uint8_t& level : numbers.levels) level ^= 4;
}

// Groups of 8 bits have 128 less the zero as an f16, behind the scale.
void zero_to_offset(BlockNumbers& numbers) {
  CHECK(numbers.zero <= 256);
  numbers.minimum = f32_to_f16(static_cast<float>(128 - numbers.zero));
}
void offset_to_zero(BlockNumbers& numbers) {
  numbers.zero = static_cast<uint16_t>(128 - static_cast<int>(f16_to_f32(numbers.minimum)));
}

using enum ElementType;
using Layout = PackedFormat::Layout;

constexpr PackedFormat kRows[] = {
    {.type = kF32, .layout = Layout::kElements},
    {.type = kF16, .layout = Layout::kElements},
    {.type = kBF16, .layout = Layout::kPairs},
    {.type = kQ8_0, .layout = Layout::kBlocks, .parts = {kPart<8>}},
    {.type = kQ4_0, .layout = Layout::kBlocks, .parts = {kPart<4>}},
    {.type = kQ4_1, .layout = Layout::kBlocks, .n_halves = 2, .parts = {kPart<4>}},
    {.type = kQ5_0, .layout = Layout::kBlocks, .parts = {kPart<4>, kPart<1, 4>}},
    {.type = kQ5_1, .layout = Layout::kBlocks, .n_halves = 2, .parts = {kPart<4>, kPart<1, 4>}},
    {.type = kIQ4_NL, .layout = Layout::kBlocks, .parts = {kPart<4>}},
    {.type = kMXFP4,
     .layout = Layout::kBlocks,
     .n_halves = 0,
     .bytes = kExponent,
     .parts = {kPart<4>}},
    {.type = kNvFp4,
     .layout = Layout::kBlocks,
     .n_halves = 0,
     .bytes = kScalesOfHalves,
     .parts = {kPart<4>}},
    {.type = kIQ4_XS, .layout = Layout::kBlocks, .bytes = kSignedScale, .parts = {kPart<4>}},
    {.type = kQ2_K,
     .layout = Layout::kBlocks,
     .n_halves = 2,
     .bytes = kScalesAndMinimaOfHalves,
     .parts = {kPart<2>}},
    {.type = kQ3_K,
     .layout = Layout::kBlocks,
     .bytes = kScalesOfHalves,
     .parts = {kPart<2>, kPart<1, 2>},
     .to_panel = change_sign,
     .from_panel = change_sign},
    {.type = kQ4_K,
     .layout = Layout::kBlocks,
     .n_halves = 2,
     .bytes = kScaleAndMinimum,
     .parts = {kPart<4>}},
    {.type = kQ5_K,
     .layout = Layout::kBlocks,
     .n_halves = 2,
     .bytes = kScaleAndMinimum,
     .parts = {kPart<4>, kPart<1, 4>}},
    {.type = kQ6_K,
     .layout = Layout::kBlocks,
     .bytes = kScalesOfHalves,
     .parts = {kPart<4>, kPart<2, 4>}},
    {.type = kInt4G32, .layout = Layout::kBlocks, .bytes = kOffset, .parts = {kPart<4>}},
    {.type = kInt4G64, .layout = Layout::kBlocks, .bytes = kOffset, .parts = {kPart<4>}},
    {.type = kInt4G128, .layout = Layout::kBlocks, .bytes = kOffset, .parts = {kPart<4>}},
    {.type = kInt8G32,
     .layout = Layout::kBlocks,
     .n_halves = 2,
     .parts = {kPart<8>},
     .to_panel = zero_to_offset,
     .from_panel = offset_to_zero},
    {.type = kInt8G128,
     .layout = Layout::kBlocks,
     .n_halves = 2,
     .parts = {kPart<8>},
     .to_panel = zero_to_offset,
     .from_panel = offset_to_zero},
    {.type = kFp8, .layout = Layout::kFp8},
    {.type = kFp8G32, .layout = Layout::kFp8},
};

constexpr auto kByType = [] {
  std::array<PackedFormat, kNumElementTypes> by_type{};
  for (const PackedFormat& row : kRows) by_type[static_cast<size_t>(row.type)] = row;
  return by_type;
}();

// The kernels' tables of levels are those of the file, 128 more.
static_assert([] {
  for (int i = 0; i < 16; ++i) {
    if (kIq4Operands[i] != kIq4Levels[i] + 128) return false;
    if (kFp4Operands[i] != kFp4Levels[i] + 128) return false;
    if (kNvFp4Operands[i] != kFp4Levels[i] + 32) return false;
  }
  return true;
}());

// Bytes of an element, or of a pair: neighbours lie kPanelColumns times as far apart.
size_t together_bytes(const PackedFormat& format) {
  return (format.layout == Layout::kPairs ? 2 : 1) * traits(format.type).block_bytes;
}

template <size_t kBytes>
void spread(std::span<const std::byte> row, std::byte* out) {
  for (; row.size() >= kBytes; row = row.subspan(kBytes), out += kBytes * kPanelColumns) {
    std::memcpy(out, row.data(), kBytes);
  }
  if (!row.empty()) std::memcpy(out, row.data(), kBytes / 2);  // half a pair
}

void pack_elements(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                   std::byte* panel) {
  const size_t bytes = together_bytes(format);
  bytes == 4 ? spread<4>(row, panel + 4 * column) : spread<2>(row, panel + 2 * column);
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

void pack_blocks(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* unit) {
  const BlockFormat& in_file = *block_format(format.type);
  const uint32_t n_blocks = traits(format.type).block_elements / kBlock32;
  BlockNumbers numbers{};
  for (; !row.empty(); row = row.subspan(in_file.block.bytes)) {
    read_block(in_file, row.data(), numbers);
    if (format.to_panel) format.to_panel(numbers);
    if (format.n_halves > 0) put_half(numbers.scale, column, unit);
    if (format.n_halves == 2) put_half(numbers.minimum, column, unit + kHalvesBytes);
    unit += format.header_bytes();
    for (uint32_t b = 0; b < n_blocks; ++b) {
      uint8_t bytes[2];
      if (format.bytes.n > 0) format.bytes.put(numbers, b, bytes);
      for (uint32_t i = 0; i < format.bytes.n; ++i, unit += kPanelColumns) {
        unit[column] = std::byte{bytes[i]};
      }
      for (const PanelPart& part : format.parts) {
        if (part.bytes > 0) part.put(numbers.levels + b * kBlock32, column, unit);
        unit += part.bytes;
      }
    }
  }
}

void unpack_blocks(const PackedFormat& format, const std::byte* unit, uint32_t column,
                   std::span<float> out) {
  const BlockFormat& in_file = *block_format(format.type);
  const uint32_t n = traits(format.type).block_elements;
  BlockNumbers numbers{};
  numbers.zero = in_file.zero;
  numbers.scale = in_file.scale;
  for (size_t begin = 0; begin < out.size(); begin += n) {
    if (format.n_halves > 0) numbers.scale = half_at(unit, column);
    if (format.n_halves == 2) numbers.minimum = half_at(unit + kHalvesBytes, column);
    unit += format.header_bytes();
    for (uint32_t b = 0; b < n / kBlock32; ++b) {
      uint8_t bytes[2];
      for (uint32_t i = 0; i < format.bytes.n; ++i, unit += kPanelColumns) {
        bytes[i] = std::to_integer<uint8_t>(unit[column]);
      }
      if (format.bytes.n > 0) format.bytes.get(bytes, b, numbers);
      for (const PanelPart& part : format.parts) {
        if (part.bytes > 0) part.get(unit, column, numbers.levels + b * kBlock32);
        unit += part.bytes;
      }
    }
    if (format.from_panel) format.from_panel(numbers);
    decode_block(in_file, numbers, out.subspan(begin, n));
  }
}

// 256 times the scales, for the kernels read E4M3 as f16: that is as many times too small.
void pack_fp8(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
              std::byte* unit) {
  const size_t block_bytes = traits(format.type).block_bytes;
  for (; !row.empty(); row = row.subspan(block_bytes), unit += format.unit_bytes()) {
    float scale;
    std::memcpy(&scale, row.data(), sizeof(scale));
    scale *= 256.0f;
    std::memcpy(unit + column * sizeof(scale), &scale, sizeof(scale));
    std::byte* number = unit + kPanelColumns * sizeof(scale) + column;
    for (const std::byte b : row.subspan(sizeof(scale), block_bytes - sizeof(scale))) {
      *number = b;
      number += kPanelColumns;
    }
  }
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
  void (*pack)(const PackedFormat&, std::span<const std::byte>, uint32_t, std::byte*);
  void (*unpack)(const PackedFormat&, const std::byte*, uint32_t, std::span<float>);
};
Packing packing_of(const PackedFormat& format) {
  if (format.layout == Layout::kBlocks) return {pack_blocks, unpack_blocks};
  if (format.layout == Layout::kFp8) return {pack_fp8, unpack_fp8};
  return {pack_elements, unpack_elements};
}

}  // namespace

const PackedFormat& packed_format(ElementType type) { return kByType[static_cast<size_t>(type)]; }

size_t panel_bytes(const PackedFormat& format, uint32_t k) {
  CHECK(format.layout != Layout::kNone);
  const ElementTraits& t = traits(format.type);
  if (t.block_elements > 1) return k / t.block_elements * format.unit_bytes();
  return (size_t{k} + k % 2) * kPanelColumns * t.block_bytes;
}

void pack_column(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* panel) {
  packing_of(format).pack(format, row, column, panel);
}

void unpack_column(const PackedFormat& format, const std::byte* panel, uint32_t column,
                   std::span<float> out) {
  packing_of(format).unpack(format, panel, column, out);
}

}  // namespace kvik
