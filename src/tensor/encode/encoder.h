#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "tensor/element_type.h"
#include "tensor/encode/fit.h"

// The encoder of a format, once for each instruction set.
namespace kvik::encode {

// One row to be encoded; no importance: all columns count alike.
struct Row {
  std::span<const float> values, importance;
  std::byte* out;
};

// Puts values [first, first + 16 · kValues) of `from` into lanes, `missing` where it ends before.
template <int kValues>
KVIK_LANES_INLINE void transpose(std::span<const float> from, size_t first, float missing,
                                 Lanes (&to)[kValues]) {
  float turned[kValues][kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t begin = first + lane * kValues;
    for (size_t i = 0; i < kValues; ++i) {
      turned[i][lane] = begin < from.size() ? from[begin + i] : missing;
    }
  }
  std::memcpy(to, turned, sizeof(to));
}

// With two or three bits a fit to least squares shrinks the largest values, which models feel more
// than the same squared error spread out: each counts by its size beside its sub-block's mean. On
// the demo that takes 11% off the KL divergence at two bits, with importance too, and 3% at three,
// where importance does as well without; nothing at four.
template <int kValues>
KVIK_LANES_INLINE void favour_large_values(SubBlocks<kValues>& s) {
  Lanes mean = {};
  for (int i = 0; i < kValues; ++i) mean += magnitude(s.x[i]);
  mean = mean / static_cast<float>(kValues);
  for (int i = 0; i < kValues; ++i) s.w[i] *= mean + magnitude(s.x[i]);
}

template <class Format>
KVIK_LANES_INLINE void encode_blocks(const Row& row) {
  using Block = Format::Block;
  constexpr int kBlocks = kLanes / Format::kSubBlocks;
  constexpr size_t kBlockValues = static_cast<size_t>(Format::kSubBlocks) * Format::kValues;
  SubBlocks<Format::kValues> s;
  Block blocks[kBlocks];
  for (size_t first = 0; first < row.values.size(); first += kBlocks * kBlockValues) {
    transpose(row.values, first, 0, s.x);
    transpose(row.importance, first, 1, s.w);
    if (Format::kFavoursLarge == FavoursLarge::kAlways ||
        (Format::kFavoursLarge == FavoursLarge::kWithoutImportance && row.importance.empty())) {
      favour_large_values(s);
    }
    s.add_up();
    Format::encode(s, blocks);
    const size_t n_there = std::min<size_t>(kBlocks, (row.values.size() - first) / kBlockValues);
    std::memcpy(row.out + first / kBlockValues * sizeof(Block), blocks, n_there * sizeof(Block));
  }
}

// One copy for each instruction set: all that these call is inlined into them, and what is not
// inlined is compiled for every processor.
template <class Format>
[[gnu::flatten]] void encode_baseline(const Row& row) {
  encode_blocks<Format>(row);
}
template <class Format>
[[gnu::target("avx2,f16c"), gnu::flatten]] void encode_avx2(const Row& row) {
  encode_blocks<Format>(row);
}
template <class Format>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c"), gnu::flatten]] void encode_avx512(
    const Row& row) {
  encode_blocks<Format>(row);
}

struct Encoder {
  ElementType type;
  void (*baseline)(const Row&);
  void (*avx2)(const Row&);
  void (*avx512)(const Row&);
};

template <class Format>
constexpr Encoder encoder(ElementType type) {
  return {type, encode_baseline<Format>, encode_avx2<Format>, encode_avx512<Format>};
}

// Those of block_formats.h and of super_block_formats.h.
std::span<const Encoder> block_encoders();
std::span<const Encoder> super_block_encoders();

}  // namespace kvik::encode
