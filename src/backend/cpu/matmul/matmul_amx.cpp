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

// The weights that a thread reads for all rows stay in the second-level cache: 8 · 64 KiB.
inline constexpr uint32_t kPanelsAtOnce = 8;
inline constexpr uint32_t kPartPairs = 512;

// Sets the shapes of the tiles: 0 to 3 have the sums of two tiles of rows times two halves of a
// panel, 4 and 5 the rows, 6 and 7 the weights of each half. Changing the shapes clears the tiles.
class TileShapes {
 public:
  void set(uint32_t n_rows, uint32_t n_pairs) {
    if (n_rows == n_rows_ && n_pairs == n_pairs_) return;
    n_rows_ = n_rows;
    n_pairs_ = n_pairs;
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t n_rows[16] = {};
    } shapes;
    static_assert(sizeof(shapes) == 64);
    const auto shape = [&](uint32_t tile, uint32_t rows, uint32_t bytes) {
      shapes.n_rows[tile] = static_cast<uint8_t>(rows);
      shapes.row_bytes[tile] = static_cast<uint16_t>(bytes);
    };
    const uint32_t first = n_rows < kTileRows ? n_rows : kTileRows;
    for (uint32_t half = 0; half < 2; ++half) {
      shape(half, first, 64);
      shape(6 + half, n_pairs, 64);
    }
    shape(4, first, 4 * n_pairs);
    if (n_rows > kTileRows) {
      for (uint32_t half = 0; half < 2; ++half) shape(2 + half, n_rows - kTileRows, 64);
      shape(5, n_rows - kTileRows, 4 * n_pairs);
    }
    asm volatile("" : : "r"(&shapes) : "memory");  // the intrinsic says that it reads eight bytes
    _tile_loadconfig(&shapes);
  }
  // Returns the tiles to their initial state, so that a change of threads need not save them.
  void release() {
    n_rows_ = n_pairs_ = 0;
    _tile_release();
  }

 private:
  uint32_t n_rows_ = 0, n_pairs_ = 0;
};
thread_local constinit TileShapes shapes;

struct Bf16Tile {
  static constexpr uint32_t kBytes = 8 * kLanes;  // of a pair of k in a panel

  // Adds the products of n_steps times n_pairs to the sums. x: [n_steps][n_rows][n_pairs][2] bf16
  template <bool kTwoTiles>
  static void add_products(const Tile& t, uint32_t n_rows, uint32_t n_steps, uint32_t n_pairs,
                           const uint8_t* x, const uint8_t* values) {
    constexpr size_t kSumBytes = 8 * kLanes;  // of a row
    float* second_sums = t.sums + kTileRows * 2 * kLanes;
    const size_t row_bytes = 4 * n_pairs;
    shapes.set(n_rows, n_pairs);
    asm volatile("" : : : "memory");  // the intrinsics do not say that they read memory
    _tile_loadd(0, t.sums, kSumBytes);
    _tile_loadd(1, t.sums + kLanes, kSumBytes);
    if constexpr (kTwoTiles) {
      _tile_loadd(2, second_sums, kSumBytes);
      _tile_loadd(3, second_sums + kLanes, kSumBytes);
    }
    for (uint32_t step = 0; step < n_steps; ++step) {
      if constexpr (!kTwoTiles) prefetch_weights<kTilePairs * kBytes>(t, values);
      _tile_loadd(4, x, row_bytes);
      _tile_loadd(6, values, kBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, values + kBytes / 2, kBytes);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kTwoTiles) {
        _tile_loadd(5, x + kTileRows * row_bytes, row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      x += n_rows * row_bytes;
      values += n_pairs * kBytes;
    }
    _tile_stored(0, t.sums, kSumBytes);
    _tile_stored(1, t.sums + kLanes, kSumBytes);
    if constexpr (kTwoTiles) {
      _tile_stored(2, second_sums, kSumBytes);
      _tile_stored(3, second_sums + kLanes, kSumBytes);
    }
  }

  static void run(const Tile& t, uint32_t n_rows) {
    if (t.is_first) {
      for (uint32_t i = 0; i < 2 * n_rows; ++i) store(t.sums + i * kLanes, zero());
    }
    const auto add = n_rows > kTileRows ? add_products<true> : add_products<false>;
    const uint32_t n_steps = t.n_units / kTilePairs;
    const uint32_t rest = t.n_units % kTilePairs;
    const size_t done = size_t{n_steps} * kTilePairs;
    if (n_steps > 0) add(t, n_rows, n_steps, kTilePairs, t.x, t.weights);
    if (rest > 0) add(t, n_rows, 1, rest, t.x + done * 4 * n_rows, t.weights + done * kBytes);
  }
};

struct Bf16Kernel : Bf16Tile {
  using Wide = Bf16Tile;
  static constexpr uint32_t kUnit = 2, kUnitBlocks = 0, kWideUnits = 1;
  static constexpr uint32_t kHalves = 2;
  static constexpr uint32_t kRows = 2 * kTileRows;
  static constexpr uint32_t kUnitsInL1 = kPartPairs;
  static_assert(kUnitsInL1 % kTilePairs == 0);
  static constexpr uint32_t kTilesWorthWidening = 2;
  static constexpr bool kHasRowScales = false;
  static constexpr bool kHasFewRows = false;
  static constexpr uint32_t kUnitBytes = kBytes;
  static constexpr uint32_t kWideUnitBytes = kBytes;
  static constexpr size_t kRowUnitBytes = 4;

  static const uint8_t* widen(const uint8_t* packed, uint32_t, uint8_t*) { return packed; }
};

// Multiplies all panels over one part of k, which stays in the second-level cache for all rows. The
// sums of a tile of rows are together: [rows / 32][panels][32][32]
void multiply_panels(const MultiplyTask& t, Part part) {
  using K = Bf16Kernel;
  constexpr uint32_t kSums = K::kRows * 2 * kLanes;  // of a panel and a tile
  const auto* panels = reinterpret_cast<const uint8_t*>(t.weights) + part.begin * K::kUnitBytes;
  MultiplyTask tile_task = t;
  for (uint32_t row = 0; row < t.n_rows; row += K::kRows) {
    const uint32_t n_rows = t.n_rows - row < K::kRows ? t.n_rows - row : K::kRows;
    const size_t first_unit = size_t{row} * part.n_units_of_k + size_t{n_rows} * part.begin;
    Tile tile = {.x = reinterpret_cast<const uint8_t*>(t.x) + first_unit * K::kRowUnitBytes,
                 .n_units = part.n_units,
                 .is_first = part.begin == 0};
    for (uint32_t p = 0; p < t.n_panels; ++p) {
      tile.weights = panels + p * t.panel_bytes;
      tile.sums = t.scratch + (row / K::kRows * t.n_panels + p) * kSums;
      K::run(tile, n_rows);
      if (part.is_last) {
        tile_task.scratch = tile.sums - size_t{row} * 2 * kLanes;  // write_sums() adds the row
        write_sums<2>(tile_task, p * kPanelColumns, {row, n_rows, nullptr});
      }
    }
  }
}

void multiply_bf16(const MultiplyTask& t) {
  if (t.n_rows <= Bf16Kernel::kRows) {
    multiply<Bf16Kernel>(t);
  } else {
    const uint32_t n_units = (t.k + 1) / 2;
    for (uint32_t begin = 0; begin < n_units; begin += kPartPairs) {
      const uint32_t n = n_units - begin < kPartPairs ? n_units - begin : kPartPairs;
      multiply_panels(t, {begin, n, n_units, begin + n == n_units, nullptr});
    }
  }
  shapes.release();
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
    [](uint32_t) { return Bf16Kernel::kRows; },
    [](uint32_t k) { return (size_t{k} + k % 2) * sizeof(uint16_t); }, pack_bf16};
constexpr WeightKernels kKernels[] = {
    {ElementType::kBF16, ActivationFormat::kBF16, multiply_bf16, kPanelsAtOnce}};
const WeightRows kBf16Types = rows_of(kKernels);

}  // namespace kvik::cpu::amx
