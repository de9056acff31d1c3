#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "tensor/element_enum.h"
#include "tensor/half.h"
#include "tensor/packed_codes.h"

// Description of block formats: how blocks are converted to plain numbers and back. Everything else
// (decoding, rounding, searching, packing) works on these numbers.
namespace kvik {

inline constexpr uint32_t kBlock32 = 32;
inline constexpr uint32_t kBlock256 = 256;

// The numbers of one block, independent of its bits in a file. Element i represents
//   scale · (level − zero) + minimum                               without sub-blocks, or
//   scale · factor[s] · (level − zero) − minimum · factor[16 + s]  with them, s = i / sub_block.
// The minimum applies if the format has one. With a table, the table's value at `level` replaces
// (level − zero); if it can be shifted, BlockFormat::table_shift is added where factor[16 + s]
// is 1. With a codebook, the levels follow from the codes and signs.
struct BlockNumbers {
  uint16_t scale, minimum;  // converted by BlockFormat::to_f32
  float row_scale;          // in place of `scale` if rows begin with an f32 scale
  uint16_t zero;
  uint8_t factors[32];  // relative to BlockFormat::min_factor
  uint8_t levels[kBlock256];
  uint16_t codes[kBlock256 / 4];  // of each four or eight values
  uint8_t signs[kBlock256 / 8];   // of eight values: bits, lowest first; or 1 if they are shifted

  int factor(size_t s, int least) const { return static_cast<int8_t>(factors[s] + least); }
};

// Layout of numbers of `bits` bits. The numbers in one byte are `span` apart, starting at its low
// bits: number i is in byte i / (span · 8 / bits) · span + i % span. They are the bits from `shift`
// on of a level or factor.
struct Plane {
  uint32_t bits, span, shift = 0;
};

// Bits of a number in a file: `bits` from bit `at` of the file's integer on are those from `shift`
// on of the number.
struct Field {
  uint32_t bits, at = 0, shift = 0;
};

// A block's parts() takes a BlockReader or a BlockWriter, so that one function describes both
// directions.
struct BlockReader {
  static void number(const auto& in_file, auto& number) { number = in_file; }
  static void field(const auto& in_file, auto& number, Field field) {
    const int bits = (in_file >> field.at & ((1 << field.bits) - 1)) << field.shift;
    number = static_cast<std::remove_reference_t<decltype(number)>>(
        field.shift == 0 ? bits : number | bits);
  }

  // flip: bits that are inverted in the file.
  template <class Byte, size_t n>
  static void bytes(const Byte (&in_file)[n], uint8_t* numbers, uint8_t flip = 0) {
    for (size_t i = 0; i < n; ++i) numbers[i] = static_cast<uint8_t>(in_file[i]) ^ flip;
  }
  template <size_t n>
  [[gnu::always_inline]] static void bits(const uint8_t (&in_file)[n], uint8_t* numbers,
                                          Plane plane) {
    for (size_t first = 0; first < n; first += plane.span) {
      for (uint32_t at = 0; at < 8; at += plane.bits, numbers += plane.span) {
#pragma GCC unroll 1  // otherwise GCC unrolls to code without vectors
        for (size_t i = 0; i < plane.span; ++i) {
          const int number = (in_file[first + i] >> at & ((1 << plane.bits) - 1)) << plane.shift;
          numbers[i] = static_cast<uint8_t>(plane.shift == 0 ? number : numbers[i] | number);
        }
      }
    }
  }
};

struct BlockWriter {  // the block must be all zeros before
  static void number(auto& in_file, const auto& number) {
    in_file = static_cast<std::remove_reference_t<decltype(in_file)>>(number);
  }
  static void field(auto& in_file, const auto& number, Field field) {
    const int bits = (number >> field.shift & ((1 << field.bits) - 1)) << field.at;
    in_file = static_cast<std::remove_reference_t<decltype(in_file)>>(in_file | bits);
  }

  template <class Byte, size_t n>
  static void bytes(Byte (&in_file)[n], const uint8_t* numbers, uint8_t flip = 0) {
    for (size_t i = 0; i < n; ++i) in_file[i] = static_cast<Byte>(numbers[i] ^ flip);
  }
  template <size_t n>
  [[gnu::always_inline]] static void bits(uint8_t (&in_file)[n], const uint8_t* numbers,
                                          Plane plane) {
    for (size_t first = 0; first < n; first += plane.span) {
      for (uint32_t at = 0; at < 8; at += plane.bits, numbers += plane.span) {
#pragma GCC unroll 1  // otherwise GCC unrolls to code without vectors
        for (size_t i = 0; i < plane.span; ++i) {
          const int number = numbers[i] >> plane.shift & ((1 << plane.bits) - 1);
          in_file[first + i] = static_cast<uint8_t>(in_file[first + i] | number << at);
        }
      }
    }
  }
};

// Functions that read and write a block struct.
struct BlockAccess {
  uint32_t bytes;
  void (*read)(const std::byte* in_file, BlockNumbers& numbers);
  void (*write)(const BlockNumbers& numbers, std::byte* in_file);
};
template <class Block>
void read_struct(const std::byte* in_file, BlockNumbers& numbers) {
  if (reinterpret_cast<uintptr_t>(in_file) % alignof(Block) != 0) {
    Block block;
    std::memcpy(&block, in_file, sizeof(block));
    Block::parts(BlockReader(), block, numbers);
    return;
  }
  // Reads in place: loads of nibbles from a copy would wait for its stores.
  Block::parts(BlockReader(), *reinterpret_cast<const Block*>(in_file), numbers);
}
template <class Block>
void write_struct(const BlockNumbers& numbers, std::byte* in_file) {
  Block block{};
  Block::parts(BlockWriter(), block, numbers);
  std::memcpy(in_file, &block, sizeof(block));
}
template <class Block>
inline constexpr BlockAccess access_to = {sizeof(Block), read_struct<Block>, write_struct<Block>};

struct LevelRange {  // lowest and highest level, relative to zero
  float low, high;
};

// Selects when large values have more weight in the search for scales (encode/searches.cpp): never,
// only without an importance matrix, or always.
enum class LargeValueWeight : uint8_t { kNever, kWithoutImportance, kAlways };

// The method by which encode_row() finds the numbers of a format: the search and its candidates.
struct Search;
struct Encoding {
  const Search* search = nullptr;
  LevelRange levels = {};
  LevelRange factors = {};
  // number of candidates on each side of the scale that spans all values; with a codebook, of
  // candidates under it
  int n_steps = 8;
  float step = 0.125f;
  int n_rounds = 0;
  LargeValueWeight large_value_weight = LargeValueWeight::kNever;
};

// Up to three bytes that a panel column has per 32 k in addition to the levels. b: index of the 32
// k within the block.
struct PackedBytes {
  uint32_t n = 0;
  void (*put)(const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) = nullptr;
  void (*get)(const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) = nullptr;
};

// The meaning of BlockNumbers::signs in a format with a codebook.
enum class CodeSigns : uint8_t {
  kEven,   // negative values; an even number of each eight
  kAny,    // negative values
  kShifts  // values whose levels are 2 less
};

inline constexpr uint32_t kNearPoints = 12;

// Codebook of a format whose levels are those of the points of a grid (grids.h). The factor of a
// sub-block is 2 · s + 1 with s ≤ max_scale.
struct Codebook {
  const uint8_t* levels = nullptr;  // [n_points][n_values], plus 128; null: there is no codebook
  uint32_t n_points = 0, n_values = 0;
  CodeSigns signs = CodeSigns::kAny;
  uint8_t max_scale = 0;
  const int8_t* digits = nullptr;  // the levels in the grid, without a shift
  uint32_t n_digits = 0;
  // Returns the codes of the nearest points for each number whose digits, lowest first, are indices
  // into `digits`, [n_digits ^ n_values][kNearPoints]: the nearest first, of equally near ones that
  // with the lower code.
  const uint16_t* (*near_points)() = nullptr;
};

// PackedLayout::level_bits of numbers of five bits that both values of a pair have as their level.
inline constexpr uint32_t kBitsOfPairs = 5;

// Packed form of blocks in panels, which the matmul kernels read (backend/layout/panel_matrix.h): a
// header of f16 values, then for each 32 k bytes and level bits.
struct PackedLayout {
  uint32_t n_halves = 1;  // scale and minimum, or an f32 scale; 0: the scale is among the bytes
  PackedBytes bytes = {};
  // Level bits of one or two planes, lowest first; zero if there is no packed form.
  // backend/layout/packed_format.cpp lists the possible planes. kBitsOfPairs: numbers of pairs.
  uint32_t level_bits[2] = {};
  PackedCodes codes = {};  // in place of level bits
  // Convert the numbers of a block between file and panel; null if they are equal.
  void (*to_panel)(BlockNumbers& numbers) = nullptr;
  void (*from_panel)(BlockNumbers& numbers) = nullptr;
};

// Leading bytes of a block that are scales, if any; values above `most` are NaN.
struct ScaleBytes {
  uint32_t n = 0;
  uint8_t most = 255;
};

// The scale with which each row begins, in place of the scales of blocks.
enum class RowScale : uint8_t { kNone, kF16, kF32 };
constexpr uint32_t bytes_of(RowScale scale) {
  return scale == RowScale::kF32 ? 4 : scale == RowScale::kF16 ? 2 : 0;
}

// A block type; element_enum.h lists its name and size.
struct BlockFormat {
  ElementType type;
  BlockAccess block;
  uint32_t sub_block = 0;  // elements that share factors, 16 or 32; 0: there are none
  int min_factor = 0;
  bool has_odd_factors = false;  // all factors are odd
  uint16_t zero = 0;             // zero point, for blocks without one of their own
  uint16_t scale = 0;            // scale, for blocks without one of their own
  RowScale row_scale = RowScale::kNone;
  float top = 0;  // the highest level
  bool has_minimum = false;
  float (*to_f32)(uint16_t) = f16_to_f32;     // conversion of scale and minimum
  float (*factor_to_f32)(uint8_t) = nullptr;  // set if factors are floats
  const int8_t* table = nullptr;              // [top + 1]
  const int8_t (*pairs)[2] =
      nullptr;             // [top + 1]: the levels of even and odd elements, in place of a table
  int8_t table_shift = 0;  // 0: the table cannot be shifted
  Codebook codebook = {};
  // Rounds to the nearest levels (round.h). Sets all numbers except `zero`.
  void (*round)(const BlockFormat& format, std::span<const float> values, BlockNumbers& numbers);
  Encoding encoding = {};
  PackedLayout packed = {};
  ScaleBytes scale_bytes = {};
};

// A type of float elements, possibly with a float scale per block.
struct FloatFormat {
  ElementType type;
  void (*to_f32)(const std::byte* bytes, std::span<float> out);
  void (*from_f32)(std::span<const float> values, std::byte* out);
  uint32_t n_together = 1;  // adjacent k values that are adjacent in a panel
};

// Return the format of a type; null if the type is not of that kind or not supported.
const BlockFormat* block_format(ElementType type);
const FloatFormat* float_format(ElementType type);

// Read, set or write the scale with which a row begins, if the format has one.
void read_row_scale(const BlockFormat& format, const std::byte* row, BlockNumbers& numbers);
void set_row_scale(const BlockFormat& format, float scale, BlockNumbers& numbers);
void write_row_scale(const BlockFormat& format, const BlockNumbers& numbers, std::byte* row);
// Returns the scale of a block, or of its row.
float scale_of(const BlockFormat& format, const BlockNumbers& numbers);

// Reads the numbers of one block, without those of its row.
void read_block(const BlockFormat& format, const std::byte* in_file, BlockNumbers& numbers);
// Sets the levels of a format with a codebook from its codes and signs.
void look_up_codes(const Codebook& codebook, BlockNumbers& numbers);
// Computes the values of one block from its numbers.
void decode_block(const BlockFormat& format, const BlockNumbers& numbers, std::span<float> out);

}  // namespace kvik
