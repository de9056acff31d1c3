#pragma once

// Kernels of matrix products: few rows with dp4a, many rows with matrix instructions on bytes, and
// float weights.

#include "backend/cuda/matmul/activations.cuh"
#include "backend/cuda/matmul/weights.cuh"

namespace kvik::cuda {
namespace {

// A panel, and the rows that a thread block multiplies by it.
struct Place {
  const uint8_t* panel;
  RowTile rows;
  uint32_t first_column;

  __device__ Place(const MultiplyTask& t, uint32_t number) {
    if (t.tiles) {
      rows = t.tiles[blockIdx.y];
    } else {
      const uint32_t first = blockIdx.y * t.tile_rows;
      rows = {0, first, lesser(t.tile_rows, t.n_rows - first)};
    }
    panel = t.weights + rows.matrix * t.matrix_bytes + number * t.panel_bytes;
    first_column = number * kPanelColumns;
  }
};

// Returns the row of x that row i of a tile uses.
__device__ __forceinline__ uint32_t row_of_x(const MultiplyTask& t, const RowTile& rows,
                                             uint32_t i) {
  return t.x_rows ? t.x_rows[rows.first + i]
                  : (rows.first + i) * t.x_row_step + rows.matrix * t.x_matrix_step;
}

// Writes or adds one element of out, unless the column is after the part's last one.
__device__ __forceinline__ void put_out(const MultiplyTask& t, const Place& place, uint32_t i,
                                        uint32_t column, float sum) {
  if (place.first_column + column >= t.n_columns) return;
  float* out = t.out + (place.rows.first + i) * t.out_stride +
               place.rows.matrix * t.out_matrix_step + place.first_column + column;
  *out = t.adds ? *out + sum : sum;
}

// Returns the power of two of a block from its shift, which is 1.5 · 2^23 times as large.
__device__ __forceinline__ float power_of_shift(float shift) {
  return __uint_as_float((__float_as_uint(shift) & 0x7f800000u) - (23u << 23));
}

// Returns the sum of the first or last 16 levels of a block.
__device__ __forceinline__ int half_sum(uint32_t sums, uint32_t half) {
  return static_cast<int16_t>(sums >> (16 * half));
}
__device__ __forceinline__ int block_sum(uint32_t sums) {
  return half_sum(sums, 0) + half_sum(sums, 1);
}

// Returns c plus the sum of the products of four signed bytes.
__device__ __forceinline__ int multiply_four(uint32_t a, uint32_t b, int c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

// Returns the initial value of a part's integer sum, as bits of a float: the bits of the shift,
// minus the weights' offset times the sum of the levels.
template <class Weights>
__device__ __forceinline__ int start_of(float shift, uint32_t sums, uint32_t part) {
  if (Weights::kOffset == 0) return __float_as_int(shift);
  const int levels = Weights::kParts == 2 ? half_sum(sums, part) : block_sum(sums);
  return __float_as_int(shift) - Weights::kOffset * levels;
}

// Number of blocks of k that each warp multiplies between two barriers: as many as keep the warp
// busy, within the limits of shared memory.
template <class Weights, uint32_t kRows>
constexpr uint32_t kBlocksOfWarp = kRows* Weights::kParts <= 2   ? 4
                                   : kRows* Weights::kParts <= 4 ? 2
                                                                 : 1;

// Multiplies few rows. Eight warps share a panel. Each warp multiplies its own blocks of k by all
// rows and stores the results in shared memory. Then warp r adds up the chain of row r, while the
// other warps continue with the next blocks.
template <class Weights, uint32_t kRows>
__global__ void __launch_bounds__(kFewThreads) multiply_few(MultiplyTask t) {
  constexpr uint32_t kWarps = kFewThreads / 32;
  constexpr uint32_t kOfWarp = kBlocksOfWarp<Weights, kRows>;
  constexpr uint32_t kTogether = kWarps * kOfWarp;
  constexpr uint32_t kParts = Weights::kParts, kFactors = kParts + Weights::kMinima;
  static_assert(kRows <= kWarps);
  __shared__ Shared<float, 2 * kTogether * kParts * kRows * 32> products;
  __shared__ Shared<float, 2 * kTogether * kFactors * 32> factors;
  const Place place(t, blockIdx.x);
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t n_blocks = t.k / kBlock;
  const uint32_t n_rows = place.rows.n_rows;
  if (n_rows == 0) return;
  uint32_t x_rows[kRows];
  for (uint32_t r = 0; r < kRows; ++r) {
    x_rows[r] = row_of_x(t, place.rows, r < n_rows ? r : n_rows - 1);
  }
  const bool has_chain = warp < n_rows;
  const uint32_t chain_row = row_of_x(t, place.rows, has_chain ? warp : 0);
  const size_t chain_blocks = static_cast<size_t>(chain_row) * t.x.n_blocks;
  float sum = 0.0f;
  uint32_t buffer = 0;
  for (uint32_t begin = 0; begin < n_blocks; begin += kTogether, buffer = 1 - buffer) {
    for (uint32_t i = 0; i < kOfWarp; ++i) {
      const uint32_t in_buffer = buffer * kTogether + i * kWarps + warp;
      const uint32_t b = begin + i * kWarps + warp;
      if (b >= n_blocks) break;
      const auto [header, block] = place_of_block<Weights>(place.panel, b);
      uint32_t words[8];
#pragma unroll
      for (uint32_t g = 0; g < 8; ++g) words[g] = Weights::word(block, g, lane);
      for (uint32_t part = 0; part < kParts; ++part) {
        factors.set((in_buffer * kFactors + part) * 32 + lane,
                    Weights::scale(header, block, part, lane));
      }
      if constexpr (Weights::kMinima > 0) {
        factors.set((in_buffer * kFactors + kParts) * 32 + lane,
                    Weights::minus_minimum(header, block, lane));
      }
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        const size_t row = x_rows[r];
        const int8_t* levels = t.x.levels + row * t.k + b * kBlock;
        const Words4 first = read_as<Words4>(levels);
        const Words4 second = read_as<Words4>(levels + 16);
        const float shift = t.x.shifts[row * t.x.n_blocks + b];
        const uint32_t sums = t.x.sums[row * t.x.n_blocks + b];
        int dot = start_of<Weights>(shift, sums, 0);
#pragma unroll
        for (uint32_t g = 0; g < 4; ++g) dot = multiply_four(words[g], first.word[g], dot);
        if constexpr (kParts == 2) {
          products.set(((in_buffer * kParts + 0) * kRows + r) * 32 + lane,
                       __int_as_float(dot) - shift);
          dot = start_of<Weights>(shift, sums, 1);
        }
#pragma unroll
        for (uint32_t g = 0; g < 4; ++g) dot = multiply_four(words[4 + g], second.word[g], dot);
        products.set(((in_buffer * kParts + kParts - 1) * kRows + r) * 32 + lane,
                     __int_as_float(dot) - shift);
      }
    }
    __syncthreads();
    if (!has_chain) continue;
    const uint32_t n = lesser(kTogether, n_blocks - begin);
#pragma unroll 8
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t in_buffer = buffer * kTogether + i;
      for (uint32_t part = 0; part < kParts; ++part) {
        sum = fmaf(products.get(((in_buffer * kParts + part) * kRows + warp) * 32 + lane),
                   factors.get((in_buffer * kFactors + part) * 32 + lane), sum);
      }
      if constexpr (Weights::kMinima > 0) {
        const size_t b = chain_blocks + begin + i;
        const float level_sum =
            static_cast<float>(block_sum(t.x.sums[b])) * power_of_shift(t.x.shifts[b]);
        sum = fmaf(level_sum, factors.get((in_buffer * kFactors + kParts) * 32 + lane), sum);
      }
    }
  }
  if (has_chain) put_out(t, place, warp, lane, sum * t.x.scales[chain_row]);
}

// The two words of four levels that a lane reads from a row for one block of 32 k: levels 4 t … and
// 16 + 4 t … of lane t in its group of four. Also the row's numbers for the block.
struct RowWords {
  uint32_t first, second;
  float shift, level_sum;
  uint32_t sums;

  __device__ RowWords(const MultiplyTask& t, uint32_t row, uint32_t b, uint32_t in_four) {
    const int8_t* levels = t.x.levels + static_cast<size_t>(row) * t.k + b * kBlock;
    first = read_as<uint32_t>(levels + 4 * in_four);
    second = read_as<uint32_t>(levels + 16 + 4 * in_four);
    const size_t at = static_cast<size_t>(row) * t.x.n_blocks + b;
    shift = t.x.shifts[at];
    sums = t.x.sums[at];
    level_sum = static_cast<float>(block_sum(sums)) * power_of_shift(shift);
  }
};

// Multiplies many rows. Each of four warps has 32 rows and a panel. For each block of k it runs
// eight matrix instructions of 16 rows, 8 columns and 32 k. The integer sums start with the rows'
// shifts. The chains stay in registers of the lanes that receive the sums.
template <class Weights>
__global__ void __launch_bounds__(kManyThreads) multiply_many(MultiplyTask t) {
  constexpr uint32_t kFragments = 2;  // of sixteen rows each
  constexpr uint32_t kRowsOfLane = 2 * kFragments;
  const uint32_t warp = threadIdx.x / 32;
  const Place place(t, blockIdx.x * kManyPanels + warp / 2);
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t in_eight = lane / 4;  // row of a and of the sums, column of b
  const uint32_t in_four = lane % 4;
  const uint32_t first_row = warp % 2 * 32;
  const uint32_t n_rows = place.rows.n_rows;
  // The same for all lanes of a warp.
  if (first_row >= n_rows || place.first_column >= t.n_columns) return;
  uint32_t x_rows[kRowsOfLane];
  for (uint32_t i = 0; i < kRowsOfLane; ++i) {
    const uint32_t row = first_row + in_eight + 8 * i;
    x_rows[i] = row_of_x(t, place.rows, row < n_rows ? row : n_rows - 1);
  }
  float sums[kFragments][4][4] = {};
  const uint32_t n_blocks = t.k / kBlock;
  for (uint32_t b = 0; b < n_blocks; ++b) {
    const auto [header, block] = place_of_block<Weights>(place.panel, b);
    const RowWords rows[kRowsOfLane] = {{t, x_rows[0], b, in_four},
                                        {t, x_rows[1], b, in_four},
                                        {t, x_rows[2], b, in_four},
                                        {t, x_rows[3], b, in_four}};
#pragma unroll
    for (uint32_t n = 0; n < 4; ++n) {
      const uint32_t column = 8 * n + 2 * in_four;  // first of the two columns of the lane's sums
      const uint32_t b_words[2] = {Weights::word(block, in_four, 8 * n + in_eight),
                                   Weights::word(block, in_four + 4, 8 * n + in_eight)};
#pragma unroll
      for (uint32_t part = 0; part < Weights::kParts; ++part) {
        const float scales[2] = {Weights::scale(header, block, part, column),
                                 Weights::scale(header, block, part, column + 1)};
        // The products of a part cover its own sixteen k. The levels of the other sixteen are
        // replaced by zeros.
        const bool has_first = Weights::kParts == 1 || part == 0;
        const bool has_second = Weights::kParts == 1 || part == 1;
#pragma unroll
        for (uint32_t f = 0; f < kFragments; ++f) {
          const RowWords& upper = rows[2 * f];
          const RowWords& lower = rows[2 * f + 1];
          const uint32_t a_words[4] = {has_first ? upper.first : 0u, has_first ? lower.first : 0u,
                                       has_second ? upper.second : 0u,
                                       has_second ? lower.second : 0u};
          const int upper_start = start_of<Weights>(upper.shift, upper.sums, part);
          const int lower_start = start_of<Weights>(lower.shift, lower.sums, part);
          const int starts[4] = {upper_start, upper_start, lower_start, lower_start};
          int dots[4];
          multiply_fragments(dots, a_words, b_words, starts);
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) {
            sums[f][n][i] = fmaf(__int_as_float(dots[i]) - rows[2 * f + i / 2].shift, scales[i % 2],
                                 sums[f][n][i]);
          }
        }
      }
      if constexpr (Weights::kMinima > 0) {
        const float minus_minima[2] = {Weights::minus_minimum(header, block, column),
                                       Weights::minus_minimum(header, block, column + 1)};
#pragma unroll
        for (uint32_t i = 0; i < 4 * kFragments; ++i) {
          sums[i / 4][n][i % 4] =
              fmaf(rows[i / 2].level_sum, minus_minima[i % 2], sums[i / 4][n][i % 4]);
        }
      }
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < 4 * kFragments; ++i) {
    const uint32_t row = first_row + in_eight + 8 * (i / 2);
    if (row >= n_rows) continue;
    const float scale = t.x.scales[x_rows[i / 2]];
#pragma unroll
    for (uint32_t n = 0; n < 4; ++n) {
      put_out(t, place, row, 8 * n + 2 * in_four + i % 2, sums[i / 4][n][i % 4] * scale);
    }
  }
}

// Number of k of a panel that are in shared memory while eight warps continue the chains of their
// rows. The next k are loaded meanwhile.
constexpr uint32_t kFloatPiece = 64;

template <class Weights, uint32_t kRows>
__global__ void __launch_bounds__(kFloatThreads) multiply_floats(MultiplyTask t) {
  constexpr uint32_t kWarps = kFloatThreads / 32;
  constexpr uint32_t kOfWarp = kRows / kWarps;          // rows
  constexpr uint32_t kOfThread = kFloatPiece / kWarps;  // weights
  __shared__ Shared<float, kFloatPiece * 32> piece;
  const Place place(t, blockIdx.x);
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t n_rows = place.rows.n_rows;
  if (n_rows == 0) return;
  const uint32_t even_k = t.k + t.k % 2;  // a panel with an odd k has a zero at its end
  const float* x[kOfWarp];
  for (uint32_t r = 0; r < kOfWarp; ++r) {
    const uint32_t row = warp + r * kWarps;
    x[r] = t.floats + row_of_x(t, place.rows, row < n_rows ? row : n_rows - 1) * t.float_stride;
  }
  float next[kOfThread];
  const auto fetch = [&](uint32_t begin) {
#pragma unroll
    for (uint32_t i = 0; i < kOfThread; ++i) {
      const uint32_t k = begin + i * kWarps + warp;
      next[i] = k < even_k ? Weights::at(place.panel, k, lane) : 0.0f;
    }
  };
  float sums[kOfWarp] = {};
  fetch(0);
  for (uint32_t begin = 0; begin < even_k; begin += kFloatPiece) {
#pragma unroll
    for (uint32_t i = 0; i < kOfThread; ++i) piece.set((i * kWarps + warp) * 32 + lane, next[i]);
    __syncthreads();
    fetch(begin + kFloatPiece);
    const uint32_t n = lesser(kFloatPiece, even_k - begin);
    for (uint32_t i = 0; warp < n_rows && i < n; ++i) {
      const float weight = piece.get(i * 32 + lane);
#pragma unroll
      for (uint32_t r = 0; r < kOfWarp; ++r) {
        const float value = begin + i < t.k ? x[r][begin + i] : 0.0f;
        sums[r] = fmaf(value, weight, sums[r]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (uint32_t r = 0; r < kOfWarp; ++r) {
    const uint32_t row = warp + r * kWarps;
    if (row < n_rows) put_out(t, place, row, lane, sums[r]);
  }
}

// Position of a row of an embedding table: a column of a panel.
struct RowPlace {
  const uint8_t* panel;
  uint32_t column;
};
// Finds the row of token i. Returns false if it is in another part of the table.
__device__ __forceinline__ bool find_row(const EmbedTask& t, uint32_t i, RowPlace& place) {
  const uint32_t row = t.tokens[i] - t.first_row;
  place = {t.panels + row / kPanelColumns * t.panel_bytes, row % kPanelColumns};
  return row < t.n_rows;
}

template <class Weights>
__global__ void embed_levels(EmbedTask t) {
  const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= t.k) return;
  for (uint32_t i = blockIdx.y; i < t.n_tokens; i += gridDim.y) {
    RowPlace row;
    if (!find_row(t, i, row)) continue;
    const auto [header, block] = place_of_block<Weights>(row.panel, k / kBlock);
    const uint32_t in_block = k % kBlock;
    const uint32_t word = Weights::word(block, in_block / 4, row.column);
    const int level = static_cast<int8_t>(word >> (8 * (in_block % 4))) - Weights::kOffset;
    t.out[i * t.out_stride + k] = Weights::value(header, block, in_block / 16, level, row.column);
  }
}

template <class Weights>
__global__ void embed_floats(EmbedTask t) {
  const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= t.k) return;
  for (uint32_t i = blockIdx.y; i < t.n_tokens; i += gridDim.y) {
    RowPlace row;
    if (find_row(t, i, row)) t.out[i * t.out_stride + k] = Weights::at(row.panel, k, row.column);
  }
}

}  // namespace
}  // namespace kvik::cuda
