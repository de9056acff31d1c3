#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/vec_avx512.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// Products of bf16 weights and activations rounded to bf16 with AMX tiles (Intel's Sapphire Rapids
// and later): TDPBF16PS multiplies 16 rows by 16 columns over 32 k, at sixteen times the rate of
// f32 FMA. Intel's manual defines its bits: for 32 k, one chain of fused multiply-adds over the
// even k and one over the odd k, both from zero; their sum is added to the result. Denormals count
// as zero.
namespace kvik::cpu::amx {

using namespace avx512;

#include "backend/cpu/matmul/matmul_loops.inl"

inline constexpr uint32_t kTileRows = 16;
inline constexpr uint32_t kTilePairs = 16;  // of adjacent k
inline constexpr uint32_t kRows = 2 * kTileRows;
inline constexpr uint32_t kPairBytes = 8 * kLanes;  // of a pair of k in a panel

// The rows of a part of k stay in the first-level cache for all panels, 12 KiB, and the weights of
// all panels in the second-level cache for all rows, 8 · 12 KiB.
inline constexpr uint32_t kPanelsAtOnce = 8;
inline constexpr uint32_t kPartPairs = 96;
static_assert(kPartPairs % kTilePairs == 0);

// The tiles of this thread: 0 to 3 have the sums of two tiles of rows times two halves of a panel,
// 4 and 5 the rows, 6 and 7 the weights of each half.
class Tiles {
 public:
  void set_shapes(uint32_t n_rows, uint32_t n_pairs) {
    if (n_rows == n_rows_ && n_pairs == n_pairs_) return;
    n_rows_ = n_rows;
    n_pairs_ = n_pairs;
    TileShapes shapes;
    const uint32_t first = n_rows < kTileRows ? n_rows : kTileRows;
    for (uint32_t half = 0; half < 2; ++half) {
      shapes.set(half, first, 64);
      shapes.set(6 + half, n_pairs, 64);
    }
    shapes.set(4, first, 4 * n_pairs);
    if (n_rows > kTileRows) {
      for (uint32_t half = 0; half < 2; ++half) shapes.set(2 + half, n_rows - kTileRows, 64);
      shapes.set(5, n_rows - kTileRows, 4 * n_pairs);
    }
    shapes.load();
  }
  // Without tiles in use, a change of threads need not save them.
  ~Tiles() { _tile_release(); }

 private:
  uint32_t n_rows_ = 0, n_pairs_ = 0;
};

// A single tile of rows reads weights from memory. Several read them from the second-level cache,
// and each prefetches a share of the next part's.
enum class Reads { kFromMemory, kFromCache };

// Weights of the next part of k that a tile of rows prefetches.
struct NextPart {
  const uint8_t* weights = nullptr;
  uint32_t step_lines = 0;  // cache lines in each step
};

// Adds the products of n_steps times n_pairs to the sums. x: [n_steps][n_rows][n_pairs][2] bf16
template <bool kTwoTiles, Reads kReads>
void add_products(Tiles& tiles, const Tile& t, uint32_t n_rows, uint32_t n_steps, uint32_t n_pairs,
                  const uint8_t* x, const uint8_t* values, NextPart next) {
  constexpr uint32_t kStepBytes = kTilePairs * kPairBytes;
  constexpr size_t kSumBytes = 8 * kLanes;  // of a row
  float* second_sums = t.sums + kTileRows * 2 * kLanes;
  const size_t row_bytes = 4 * n_pairs;
  tiles.set_shapes(n_rows, n_pairs);
  asm volatile("" : : : "memory");  // the intrinsics do not say that they read memory
  _tile_loadd(0, t.sums, kSumBytes);
  _tile_loadd(1, t.sums + kLanes, kSumBytes);
  if constexpr (kTwoTiles) {
    _tile_loadd(2, second_sums, kSumBytes);
    _tile_loadd(3, second_sums + kLanes, kSumBytes);
  }
  for (uint32_t step = 0; step < n_steps; ++step) {
    if constexpr (kReads == Reads::kFromMemory) {
      prefetch_weights<kStepBytes>(t, values);
    } else {
      for (uint32_t line = 0; line < next.step_lines; ++line) {
        __builtin_prefetch(next.weights, 0, 2);
        next.weights += 64;
      }
    }
    _tile_loadd(4, x, row_bytes);
    _tile_loadd(6, values, kPairBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, values + kPairBytes / 2, kPairBytes);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwoTiles) {
      _tile_loadd(5, x + kTileRows * row_bytes, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    x += n_rows * row_bytes;
    values += n_pairs * kPairBytes;
  }
  _tile_stored(0, t.sums, kSumBytes);
  _tile_stored(1, t.sums + kLanes, kSumBytes);
  if constexpr (kTwoTiles) {
    _tile_stored(2, second_sums, kSumBytes);
    _tile_stored(3, second_sums + kLanes, kSumBytes);
  }
}

// Adds the products of a part of k of one panel and up to kRows rows.
template <Reads kReads>
void add_part(Tiles& tiles, const Tile& t, uint32_t n_rows, NextPart next) {
  if (t.is_first) {
    for (uint32_t i = 0; i < 2 * n_rows; ++i) store(t.sums + i * kLanes, zero());
  }
  const auto add = n_rows > kTileRows ? add_products<true, kReads> : add_products<false, kReads>;
  const uint32_t n_steps = t.n_units / kTilePairs;
  const uint32_t rest = t.n_units % kTilePairs;
  const size_t done = size_t{n_steps} * kTilePairs;
  if (n_steps > 0) add(tiles, t, n_rows, n_steps, kTilePairs, t.x, t.weights, next);
  if (rest > 0) {
    add(tiles, t, n_rows, 1, rest, t.x + done * 4 * n_rows, t.weights + done * kPairBytes, {});
  }
}

// Returns what the tile that begins at `row` prefetches: its share of a panel's next part, which
// begins where this one ends.
NextPart next_part(uint32_t n_rows, uint32_t row, const uint8_t* weights) {
  constexpr uint32_t kPartLines = kPartPairs * kPairBytes / 64;
  constexpr uint32_t kSteps = kPartPairs / kTilePairs;
  const uint32_t n_prefetches = (n_rows + kRows - 1) / kRows * kSteps;
  const uint32_t step_lines = (kPartLines + n_prefetches - 1) / n_prefetches;
  const uint32_t first_line = row / kRows * kSteps * step_lines;
  if (first_line >= kPartLines) return {};
  return {weights + (kPartLines + size_t{first_line}) * 64, step_lines};
}

// Multiplies all panels over one part of k. The sums of a tile of rows are together: [rows /
// 32][panels][32][32]
void multiply_part(Tiles& tiles, const MultiplyTask& t, Part part) {
  constexpr uint32_t kSums = kRows * 2 * kLanes;  // of a panel and a tile
  const auto* panels = reinterpret_cast<const uint8_t*>(t.weights) + part.begin * kPairBytes;
  MultiplyTask tile_task = t;
  for (uint32_t row = 0; row < t.n_rows; row += kRows) {
    const uint32_t n_rows = t.n_rows - row < kRows ? t.n_rows - row : kRows;
    const size_t first_unit = size_t{row} * part.n_units_of_k + size_t{n_rows} * part.begin;
    Tile tile = {.x = reinterpret_cast<const uint8_t*>(t.x) + first_unit * 4,
                 .n_units = part.n_units,
                 .is_first = part.begin == 0};
    for (uint32_t p = 0; p < t.n_panels; ++p) {
      tile.weights = panels + p * t.panel_bytes;
      tile.sums = t.scratch + (row / kRows * t.n_panels + p) * kSums;
      if (t.n_rows <= kRows) {
        add_part<Reads::kFromMemory>(tiles, tile, n_rows, {});
      } else {
        const NextPart next = part.is_last ? NextPart{} : next_part(t.n_rows, row, tile.weights);
        add_part<Reads::kFromCache>(tiles, tile, n_rows, next);
      }
      if (part.is_last) {
        tile_task.scratch = tile.sums - size_t{row} * 2 * kLanes;  // write_sums() adds the row
        write_sums<2>(tile_task, p * kPanelColumns, {row, n_rows, nullptr});
      }
    }
  }
}

// With one tile of rows the weights are streamed. With more, those of a part of k stay in the
// second-level cache for all rows.
void multiply_bf16(const MultiplyTask& t) {
  Tiles tiles;
  const uint32_t n_units = (t.k + 1) / 2;
  const uint32_t most = t.n_rows <= kRows ? n_units : kPartPairs;
  for (uint32_t begin = 0; begin < n_units; begin += most) {
    const uint32_t n = n_units - begin < most ? n_units - begin : most;
    multiply_part(tiles, t, {begin, n, n_units, begin + n == n_units, nullptr});
  }
}

// Packs a tile as [k / 32][r][32] bf16. The last k of a row, if fewer than 32, are as many pairs.
void pack_bf16(const ActivationTile& t) {
  constexpr uint32_t kStep = 2 * kTilePairs;
  auto* out = reinterpret_cast<uint8_t*>(t.out);
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    const float* x = t.row(r);
    for (uint32_t k = 0; k < t.k; k += kStep) {
      const uint32_t n = t.k - k < kStep ? t.k - k : kStep;
      const uint32_t n_even = n + n % 2;
      const __m512 low = load_first(x + k, n < kLanes ? n : kLanes).v;
      const __m512 high = load_first(x + k + kLanes, n < kLanes ? 0 : n - kLanes).v;
      const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      const auto written = static_cast<__mmask32>((uint64_t{1} << n_even) - 1);
      _mm512_mask_storeu_epi16(out + (size_t{k} * t.n_rows + size_t{n_even} * r) * 2, written,
                               rounded);
    }
  }
}

const ActivationKernels kBf16Activations = {
    [](uint32_t) { return kRows; },
    [](uint32_t k) { return (size_t{k} + k % 2) * sizeof(uint16_t); }, pack_bf16};
constexpr WeightKernels kKernels[] = {
    {ElementType::kBF16, ActivationFormat::kBF16, multiply_bf16, kPanelsAtOnce}};
const WeightRows kBf16Types = rows_of(kKernels);

}  // namespace kvik::cpu::amx
