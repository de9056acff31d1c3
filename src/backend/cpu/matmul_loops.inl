// The loops around a register tile: included by matmul.inl and matmul_avx512bf16.cpp. A kernel
// states its tile (kPanels, kRows), its unit of k, and how many units of kPanels panels stay in the
// first-level cache beside the activations (kUnitsInL1); run<panels, rows>(tile) multiplies from
// packed weights, Wide::run from those that widen() has prepared.

// Weights of some panels from one unit on.
struct Weights {
  const uint8_t* values;
  const uint8_t* scales;  // nullptr where there are none
  size_t value_stride;    // bytes from panel to panel
  size_t scale_stride;
};

// One call of a register tile: some panels, one tile of rows, part of k.
struct Tile {
  Weights weights;
  const uint8_t* x;
  size_t next_x;  // bytes to the same place in the next tile of rows
  uint32_t n_units;
  bool is_first;  // part of k
  float* sums;    // [rows][panels · 16]: read unless is_first, written always
};

template <class T>
inline T load_as(const uint8_t* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// What a kernel will miss next: weights from memory where few rows use them, else the rows, which
// come from the second-level cache.
enum class Ahead { kWeights, kRows };

template <Ahead kAhead, uint32_t P, uint32_t kWeightBytes, uint32_t kRowBytes>
inline void prefetch_ahead(const Tile& t, const uint8_t* weights, const uint8_t* x) {
  if constexpr (kAhead == Ahead::kWeights) {
    for (uint32_t p = 0; p < P; ++p) {
      const uint8_t* at = weights + p * t.weights.value_stride + Tiles::kWeightsAhead;
#pragma GCC unroll 8
      for (uint32_t line = 0; line < kWeightBytes; line += 64) __builtin_prefetch(at + line);
    }
  } else {
#pragma GCC unroll 8
    for (uint32_t line = 0; line < kRowBytes; line += 64) __builtin_prefetch(x + t.next_x + line);
  }
}

template <class Kernel, uint32_t P, uint32_t R>
inline void run_rows(const Tile& tile, uint32_t n_rows) {
  if (n_rows == R) {
    Kernel::template run<P, R>(tile);
  } else if constexpr (R > 1) {
    run_rows<Kernel, P, R - 1>(tile, n_rows);
  }
}

// Finished sums to where they belong.
template <uint32_t P>
inline void write_sums(const MultiplyTask& t, uint32_t first_column) {
  const uint32_t left = t.n_columns - first_column;
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    float* out = t.out + r * t.out_stride + first_column;
    const float* sums = t.scratch + size_t{r} * P * kLanes;
    for (uint32_t p = 0; p < P; ++p) {
      const uint32_t n = left < (p + 1) * kLanes ? left - p * kLanes : kLanes;
      const F32x16 sum = load(sums + p * kLanes);
      float* at = out + p * kLanes;
      if (n == kLanes) {
        store(at, t.accumulate ? add(load(at), sum) : sum);
      } else {
        store_first(at, t.accumulate ? add(load_first(at, n), sum) : sum, n);
      }
    }
  }
}

// All rows over part of k. The chains go on where the part before has left them.
template <class Kernel, uint32_t P>
inline void multiply_part(const MultiplyTask& t, const Weights& weights, uint32_t begin,
                          uint32_t n_units) {
  const size_t unit_bytes = Kernel::kRowUnitBytes;
  const size_t row_bytes = (size_t{t.k} + Kernel::kUnit - 1) / Kernel::kUnit * unit_bytes;
  const auto* x = reinterpret_cast<const uint8_t*>(t.x);
  for (uint32_t row = 0; row < t.n_rows; row += Kernel::kRows) {
    const uint32_t n = t.n_rows - row < Kernel::kRows ? t.n_rows - row : Kernel::kRows;
    const Tile tile = {.weights = weights,
                       .x = x + row * row_bytes + n * begin * unit_bytes,
                       .next_x = Kernel::kRows * row_bytes,
                       .n_units = n_units,
                       .is_first = begin == 0,
                       .sums = t.scratch + size_t{row} * P * kLanes};
    run_rows<typename Kernel::Wide, P, Kernel::kRows>(tile, n);
  }
}

// P panels. One tile of rows takes the packed weights as they stream by. More go part by part of k,
// so that the widened weights of a part stay in the first-level cache while all rows pass by.
template <class Kernel, uint32_t P>
inline void multiply_panels(const MultiplyTask& t, uint32_t first_panel) {
  static_assert(P * Kernel::kWidePanelBytes <= kWideBytes && P * kLanes <= kScratchFloatsPerRow);
  const uint32_t n_units = (t.k + Kernel::kUnit - 1) / Kernel::kUnit;
  const auto* panel = reinterpret_cast<const uint8_t*>(t.weights) + first_panel * t.panel_bytes;
  if (t.n_rows <= Kernel::kRows) {
    const Tile tile = {.weights = Kernel::weights(panel, t.panel_bytes, n_units, 0),
                       .x = reinterpret_cast<const uint8_t*>(t.x),
                       .next_x = 0,
                       .n_units = n_units,
                       .is_first = true,
                       .sums = t.scratch};
    run_rows<Kernel, P, Kernel::kRows>(tile, t.n_rows);
  } else {
    auto* wide = reinterpret_cast<uint8_t*>(t.scratch + t.n_rows * kScratchFloatsPerRow);
    for (uint32_t begin = 0; begin < n_units; begin += Kernel::kUnitsInL1) {
      const uint32_t n =
          n_units - begin < Kernel::kUnitsInL1 ? n_units - begin : Kernel::kUnitsInL1;
      const Weights packed = Kernel::weights(panel, t.panel_bytes, n_units, begin);
      multiply_part<Kernel, P>(t, Kernel::widen(packed, P, n, wide), begin, n);
    }
  }
  write_sums<P>(t, first_panel * kPanelColumns);
}

template <class Kernel>
void multiply(const MultiplyTask& t) {
  uint32_t panel = 0;
  for (; panel + Kernel::kPanels <= t.n_panels; panel += Kernel::kPanels) {
    multiply_panels<Kernel, Kernel::kPanels>(t, panel);
  }
  if constexpr (Kernel::kPanels > 1) {
    for (; panel < t.n_panels; ++panel) multiply_panels<Kernel, 1>(t, panel);
  }
}
