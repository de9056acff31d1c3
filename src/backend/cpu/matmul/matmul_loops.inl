// Loops around a register tile. Included by matmul.inl and matmul_avx512bf16.cpp. A kernel defines:
//
//   kHalves, kRows       size of its tile: halves of a panel, and rows
//   kUnit                number of k in a unit
//   kUnitBytes           bytes of a unit in a panel
//   kWideUnitBytes       bytes of a unit after widen()
//   kWideUnits           units of Wide that a unit becomes
//   kRowUnitBytes        bytes of a unit in a row of packed activations
//   kUnitsInL1           units whose weights stay in the first-level cache, along with activations
//   kTilesWorthWidening  number of row tiles from which widening weights pays off
//   kHasRowScales        whether rows of packed activations end with a scale
//   kHasFewRows          whether FewRows can process more rows than kRows at once
//
// run<halves, rows>(tile) multiplies packed weights, and Wide::run multiplies widened ones.

// Arguments of a register tile: one panel or half of it, one tile of rows, and a part of k.
struct Tile {
  const uint8_t* weights = nullptr;
  uint32_t half = 0;  // first half of the panel
  const uint8_t* x = nullptr;
  size_t next_x = 0;  // bytes to the same place in the next tile of rows
  uint32_t n_units = 0;
  // Blocks of 32 k in a unit, for kernels that support several sizes.
  uint32_t unit_blocks = 0;
  bool is_first = true;      // whether this is the first part of k
  bool in_one_step = false;  // whether weights are prefetched in one step
  // [rows][halves · 16]: read unless is_first, and always written
  float* sums = nullptr;
};

// Returns the number of rows per tile of activations if a FewRows tile processes all rows. From
// nine rows on, this is half of them, so that the sums of one block for these rows stay in
// registers.
constexpr uint32_t few_rows_tile(uint32_t n_rows) { return n_rows > 8 ? (n_rows + 1) / 2 : n_rows; }

template <class T>
inline T load_as(const uint8_t* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// Distances of prefetches. With few rows a kernel prefetches weights from memory, else rows from
// the second-level cache. Weights are prefetched in two steps: far ahead into the second-level
// cache, and near ahead into the first. On Emerald Rapids, q4_0 reached 83% and 90% of the memory
// bandwidth with only one of these steps, and 93% with both. On Zen 5 the second step costs more
// than it gains: a single step reads as fast as plain loads, and two steps read a tenth less.
inline constexpr uint32_t kFarBytes = 8192;
inline constexpr uint32_t kNearBytes = 1024;
inline constexpr uint32_t kOneStepBytes = 4096;

// Data that a tile prefetches.
enum class Ahead { kWeights, kRows };

// Functions that only prefetch are always inlined, because GCC 12 otherwise takes them for
// functions without effects and removes the calls.
template <uint32_t kBytes>
[[gnu::always_inline]] inline void prefetch_weights(const Tile& t, const uint8_t* weights) {
  if (t.in_one_step) {
#pragma GCC unroll 32
    for (uint32_t line = 0; line < kBytes; line += 64) {
      __builtin_prefetch(weights + kOneStepBytes + line, 0, 3);
    }
    return;
  }
#pragma GCC unroll 32
  for (uint32_t line = 0; line < kBytes; line += 64) {
    __builtin_prefetch(weights + kFarBytes + line, 0, 2);
    __builtin_prefetch(weights + kNearBytes + line, 0, 3);
  }
}

template <Ahead kAhead, uint32_t kWeightBytes, uint32_t kRowBytes>
[[gnu::always_inline]] inline void prefetch_ahead(const Tile& t, const uint8_t* weights,
                                                  const uint8_t* x) {
  if constexpr (kAhead == Ahead::kWeights) {
    prefetch_weights<kWeightBytes>(t, weights);
  } else {
#pragma GCC unroll 32
    for (uint32_t line = 0; line < kRowBytes; line += 64) __builtin_prefetch(x + t.next_x + line);
  }
}

// Loads the chains of a tile as the previous part of k left them, or zeros in the first part.
template <uint32_t H, uint32_t R>
inline void load_sums(const Tile& t, F32x16 (&sums)[R][H]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t h = 0; h < H; ++h) {
      sums[r][h] = t.is_first ? set1(0.0f) : load(t.sums + (r * H + h) * kLanes);
    }
  }
}

template <uint32_t H, uint32_t R>
inline void store_sums(const Tile& t, const F32x16 (&sums)[R][H]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t h = 0; h < H; ++h) store(t.sums + (r * H + h) * kLanes, sums[r][h]);
  }
}

template <class Kernel, uint32_t H, uint32_t R>
inline void run_rows(const Tile& tile, uint32_t n_rows) {
  if (n_rows == R) {
    Kernel::template run<H, R>(tile);
  } else if constexpr (R > 1) {
    run_rows<Kernel, H, R - 1>(tile, n_rows);
  }
}

// A part of the k of a panel.
struct Part {
  // Units [begin, begin + n_units)
  uint32_t begin, n_units;
  // Units in all of k.
  uint32_t n_units_of_k;
  bool is_last;
  const uint8_t* following;  // packed weights after those of this part
};

// A tile of rows: its first row, the number of rows, and their scales or null.
struct RowTile {
  uint32_t first, n;
  const uint8_t* scales;
};

// Writes the finished sums of a tile of rows to the output. sums: [n_rows][n_halves · 16]
template <uint32_t n_halves>
inline void write_sums(const MultiplyTask& t, uint32_t first_column, RowTile rows) {
  const uint32_t first_row = rows.first;
  const uint32_t n_rows = rows.n;
  const float* sums = t.scratch + size_t{first_row} * n_halves * kLanes;
  for (uint32_t h = 0; h < n_halves; ++h) {
    const uint32_t column = first_column + h * kLanes;
    if (column >= t.n_columns) return;
    const uint32_t n = t.n_columns - column < kLanes ? t.n_columns - column : kLanes;
    for (uint32_t r = 0; r < n_rows; ++r) {
      F32x16 sum = load(sums + (size_t{r} * n_halves + h) * kLanes);
      if (rows.scales) sum = mul(sum, set1(load_as<float>(rows.scales + 4 * r) * t.scale));
      float* out = t.out + (first_row + r) * t.out_stride + column;
      if (n == kLanes) {
        store(out, t.accumulate ? add(load(out), sum) : sum);
      } else {
        store_first(out, t.accumulate ? add(load_first(out, n), sum) : sum, n);
      }
    }
  }
}

// Multiplies all rows over one part of k. Run is the kernel, or its Wide. The chains continue those
// of the previous part. For each tile of rows, some lines of the next part's packed weights are
// prefetched. The finished sums of a tile are written at once, which overlaps with the products of
// the next tile.
template <class Kernel, class Run>
inline void multiply_part(const MultiplyTask& t, Tile tile, uint32_t first_column, Part part) {
  const size_t units_bytes = size_t{part.n_units_of_k} * Kernel::kRowUnitBytes;
  const size_t row_bytes = units_bytes + (Kernel::kHasRowScales ? sizeof(float) : 0);
  tile.next_x = Kernel::kRows * row_bytes;
  tile.is_first = part.begin == 0;
  const uint32_t part_lines = part.n_units * Kernel::kUnitBytes / 64;
  const uint32_t lines = part_lines / ((t.n_rows + Kernel::kRows - 1) / Kernel::kRows) + 1;
  for (uint32_t row = 0; row < t.n_rows; row += Kernel::kRows) {
    const uint32_t n = t.n_rows - row < Kernel::kRows ? t.n_rows - row : Kernel::kRows;
    const uint8_t* rows = reinterpret_cast<const uint8_t*>(t.x) + row * row_bytes;
    tile.x = rows + size_t{n} * part.begin * Kernel::kRowUnitBytes;
    tile.sums = t.scratch + size_t{row} * Kernel::kHalves * kLanes;
    if (t.n_rows > Kernel::kRows) {
      for (uint32_t i = 0; i < lines; ++i) __builtin_prefetch(part.following + 64 * i, 0, 2);
      part.following += 64 * lines;
    }
    run_rows<Run, Kernel::kHalves, Kernel::kRows>(tile, n);
    if (part.is_last) {
      const uint8_t* scales = Kernel::kHasRowScales ? rows + n * units_bytes : nullptr;
      write_sums<Kernel::kHalves>(t, first_column, {row, n, scales});
    }
  }
}

// Multiplies one panel, or half of it. With a single tile of rows the weights are streamed. With
// more tiles the loop proceeds by parts of k, so that the weights of a part stay in the first-level
// cache for all rows.
template <class Kernel>
inline void multiply_halves(const MultiplyTask& t, const uint8_t* panel, uint32_t half,
                            uint32_t first_column) {
  static_assert(Kernel::kUnitsInL1 * Kernel::kWideUnitBytes <= kWideBytes);
  const uint32_t n_units = (t.k + Kernel::kUnit - 1) / Kernel::kUnit;
  const uint32_t part = t.n_rows <= Kernel::kRows ? n_units : Kernel::kUnitsInL1;
  auto* wide = reinterpret_cast<uint8_t*>(t.scratch + t.n_rows * kScratchFloatsPerRow);
  for (uint32_t begin = 0; begin < n_units; begin += part) {
    const uint32_t n = n_units - begin < part ? n_units - begin : part;
    const uint8_t* packed = panel + size_t{begin} * Kernel::kUnitBytes;
    const Part place = {begin, n, n_units, begin + n == n_units,
                        packed + size_t{n} * Kernel::kUnitBytes};
    Tile tile = {.weights = packed,
                 .half = half,
                 .n_units = n,
                 .unit_blocks = Kernel::kUnitBlocks,
                 .in_one_step = t.in_one_step};
    if (t.n_rows <= (Kernel::kTilesWorthWidening - 1) * Kernel::kRows) {
      multiply_part<Kernel, Kernel>(t, tile, first_column, place);
    } else {
      tile.weights = Kernel::widen(packed, n, wide);
      tile.n_units = n * Kernel::kWideUnits;
      multiply_part<Kernel, typename Kernel::Wide>(t, tile, first_column, place);
    }
  }
}

// Multiplies one panel by all rows at once, in the tiles of few_rows_tile().
template <class Kernel>
inline void multiply_few_rows(const MultiplyTask& t, const uint8_t* panel, uint32_t first_column) {
  const uint32_t n_units = t.k / Kernel::kUnit;
  const size_t units_bytes = size_t{n_units} * Kernel::kRowUnitBytes;
  const size_t tile_bytes = t.tile_rows * (units_bytes + sizeof(float));
  const auto* x = reinterpret_cast<const uint8_t*>(t.x);
  const Tile tile = {.weights = panel,
                     .x = x,
                     .next_x = tile_bytes,
                     .n_units = n_units,
                     .unit_blocks = Kernel::kUnitBlocks,
                     .in_one_step = t.in_one_step,
                     .sums = t.scratch};
  Kernel::FewRows::run_rows(tile, t.n_rows);
  for (uint32_t row = 0; row < t.n_rows; row += t.tile_rows, x += tile_bytes) {
    const uint32_t n = t.n_rows - row < t.tile_rows ? t.n_rows - row : t.tile_rows;
    write_sums<2>(t, first_column, {row, n, x + n * units_bytes});
  }
}

template <class Kernel>
void multiply(const MultiplyTask& t) {
  for (uint32_t p = 0; p < t.n_panels; ++p) {
    const auto* panel = reinterpret_cast<const uint8_t*>(t.weights) + p * t.panel_bytes;
    if constexpr (Kernel::kHasFewRows) {
      if (t.n_rows > Kernel::kRows && t.tile_rows == few_rows_tile(t.n_rows)) {
        multiply_few_rows<Kernel>(t, panel, p * kPanelColumns);
        continue;
      }
    }
    for (uint32_t half = 0; half < kPanelColumns / kLanes; half += Kernel::kHalves) {
      multiply_halves<Kernel>(t, panel, half, p * kPanelColumns + half * kLanes);
    }
  }
}
