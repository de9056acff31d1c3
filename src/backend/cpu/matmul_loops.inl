// The loops around a micro-kernel: included by matmul.inl and matmul_avx512bf16.cpp. A kernel
// states its register tile (kPanels, kRows), its unit of k, how many units of kPanels panels stay
// in the first-level cache beside the activations (kUnitsInL1), and run<panels, rows>(tile).

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

// P panels. Part of k after part of k, so that the weights of a part stay in the first-level cache
// while all rows pass by; the sums wait in between, and their chains go on where they stopped.
template <class Kernel, uint32_t P>
inline void multiply_panels(const MultiplyTask& t, uint32_t first_panel) {
  const uint32_t n_units = (t.k + Kernel::kUnit - 1) / Kernel::kUnit;
  const uint32_t part = t.n_rows <= Kernel::kRows ? n_units : Kernel::kUnitsInL1;
  Tile tile = {reinterpret_cast<const uint8_t*>(t.weights) + first_panel * t.panel_bytes,
               t.panel_bytes,
               nullptr,
               t.k,
               0,
               0,
               nullptr};
  for (uint32_t begin = 0; begin < n_units; begin += part) {
    tile.begin = begin;
    tile.end = n_units - begin < part ? n_units : begin + part;
    tile.x = reinterpret_cast<const uint8_t*>(t.x);
    tile.sums = t.scratch;
    for (uint32_t row = 0; row < t.n_rows; row += Kernel::kRows) {
      const uint32_t n = t.n_rows - row < Kernel::kRows ? t.n_rows - row : Kernel::kRows;
      run_rows<Kernel, P, Kernel::kRows>(tile, n);
      tile.x += n * Kernel::row_bytes(t.k);
      tile.sums += n * P * kLanes;
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
