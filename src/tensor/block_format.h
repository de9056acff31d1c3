#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "tensor/element_enum.h"
#include "tensor/half.h"

// What a block format is: how its blocks are read into plain numbers and written from them. All
// else is done with the numbers: decoding, rounding, searching, packing for a device.
namespace kvik {

inline constexpr uint32_t kBlock32 = 32;
inline constexpr uint32_t kBlock256 = 256;

// One block, whatever bits hold its numbers in a file. Element i stands for
//   scale · (level − zero) + minimum                           where a block has no sub-blocks, and
//   scale · factor[s] · (level − zero) − minimum · factor[16 + s]      with s = i / sub_block else,
// where the format has a minimum; and for a table's number `level` where it has a table.
struct BlockNumbers {
  uint16_t scale, minimum;  // see BlockFormat::to_f32
  uint16_t zero;
  uint8_t factors[32];  // counted from BlockFormat::least_factor
  uint8_t levels[kBlock256];

  int factor(size_t s, int least) const { return static_cast<int8_t>(factors[s] + least); }
};

// Numbers of `bits` bits in bytes, the numbers of a byte `span` apart from its low bits up: number
// i lies in byte i / (span · 8 / bits) · span + i % span. They are the bits of a level, or of a
// factor, from `shift` on.
struct Plane {
  uint32_t bits, span, shift = 0;
};

// What a block's parts() is called with, so that one description serves both ways.
struct BlockReader {
  static void number(const auto& in_file, auto& number) { number = in_file; }

  // flip: bits that are the other way round in the file.
  template <class Byte, size_t n>
  static void bytes(const Byte (&in_file)[n], uint8_t* numbers, uint8_t flip = 0) {
    for (size_t i = 0; i < n; ++i) numbers[i] = static_cast<uint8_t>(in_file[i]) ^ flip;
  }
  template <size_t n>
  [[gnu::always_inline]] static void bits(const uint8_t (&in_file)[n], uint8_t* numbers,
                                          Plane plane) {
    for (size_t first = 0; first < n; first += plane.span) {
      for (uint32_t at = 0; at < 8; at += plane.bits, numbers += plane.span) {
#pragma GCC unroll 1  // or it becomes code that is not vectorised
        for (size_t i = 0; i < plane.span; ++i) {
          const int number = (in_file[first + i] >> at & ((1 << plane.bits) - 1)) << plane.shift;
          numbers[i] = static_cast<uint8_t>(plane.shift == 0 ? number : numbers[i] | number);
        }
      }
    }
  }
};

struct BlockWriter {  // onto zeros
  static void number(auto& in_file, const auto& number) {
    in_file = static_cast<std::remove_reference_t<decltype(in_file)>>(number);
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
#pragma GCC unroll 1  // or it becomes code that is not vectorised
        for (size_t i = 0; i < plane.span; ++i) {
          const int number = numbers[i] >> plane.shift & ((1 << plane.bits) - 1);
          in_file[first + i] = static_cast<uint8_t>(in_file[first + i] | number << at);
        }
      }
    }
  }
};

// A block's struct as functions.
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
  // Where it lies: in a copy, nibbles are not loaded as they were stored, and wait for the stores.
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

struct LevelRange {  // levels on both sides of zero
  float low, high;
};

// Whether values count by their size while scales are searched (encode/searches.cpp).
enum class FavoursLarge : uint8_t { kNever, kWithoutImportance, kAlways };

// How encode_row() finds a format's numbers: which search, over which candidates.
struct Search;
struct Encoding {
  const Search* search = nullptr;
  LevelRange levels = {};
  LevelRange factors = {};
  int n_steps = 8;  // on each side of the scale that spans all values
  float step = 0.125f;
  int n_rounds = 0;
  FavoursLarge favours_large = FavoursLarge::kNever;
};

// Up to two bytes that a column of a panel holds for each 32 k beside the levels. b: which 32 k of
// the block.
struct PackedBytes {
  uint32_t n = 0;
  void (*put)(const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) = nullptr;
  void (*get)(const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) = nullptr;
};

// The packed form of blocks in panels, which products read (backend/layout/panel_matrix.h): a
// header of f16, then for each 32 k bytes and the bits of levels.
struct PackedLayout {
  uint32_t n_halves = 1;  // scale, and minimum; 0: the scale is among the bytes
  PackedBytes bytes = {};
  // Bits of a level, the lowest first: those of one plane, or of two; none where there is no packed
  // form. Which planes there are: backend/layout/packed_format.cpp.
  uint32_t level_bits[2] = {};
  // Convert the numbers of the file to those of the panel, and back; null where they are the same.
  void (*to_panel)(BlockNumbers& numbers) = nullptr;
  void (*from_panel)(BlockNumbers& numbers) = nullptr;
};

// Bytes that a block begins with and that are scales, if it has such; those above `most` are no
// numbers.
struct ScaleBytes {
  uint32_t n = 0;
  uint8_t most = 255;
};

// A type of blocks; element_enum.h lists its name and size. A format with a codebook looks its
// levels up in parts().
struct BlockFormat {
  ElementType type;
  BlockAccess block;
  uint32_t sub_block = 0;  // elements that share factors, 16 or 32; 0: there are none
  int least_factor = 0;
  uint16_t zero = 0;   // unless a block has its own
  uint16_t scale = 0;  // likewise
  float top = 0;       // the highest level
  bool has_minimum = false;
  float (*to_f32)(uint16_t) = f16_to_f32;     // of scale and minimum
  float (*factor_to_f32)(uint8_t) = nullptr;  // where factors are floats
  const int8_t* table = nullptr;
  // To the nearest levels (round.h). numbers: all but `zero` are filled.
  void (*round)(const BlockFormat& format, std::span<const float> values, BlockNumbers& numbers);
  Encoding encoding = {};
  PackedLayout packed = {};
  ScaleBytes scale_bytes = {};
};

// A type of elements that are floats for themselves, or under a float that a block of them shares.
struct FloatFormat {
  ElementType type;
  void (*to_f32)(const std::byte* bytes, std::span<float> out);
  void (*from_f32)(std::span<const float> values, std::byte* out);
  uint32_t n_together = 1;  // neighbours in k that lie side by side in a panel
};

// nullptr where the type is none of blocks, or none of floats, or one that nothing here reads.
const BlockFormat* block_format(ElementType type);
const FloatFormat* float_format(ElementType type);

// One block to and from its numbers.
void read_block(const BlockFormat& format, const std::byte* in_file, BlockNumbers& numbers);
void decode_block(const BlockFormat& format, const BlockNumbers& numbers, std::span<float> out);

}  // namespace kvik
