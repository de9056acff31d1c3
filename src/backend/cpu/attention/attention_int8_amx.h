#pragma once

#include "backend/cpu/attention/attention_int8_avx512.h"
#include "backend/cpu/isa/amx_tiles.h"

// The functions of attention_int8_avx512.h, and both products of attention with AMX tiles.
namespace kvik::cpu::amx {

using namespace avx512;

// Multiplies the rows of a chunk, as many as kRows, with up to kColumns blocks of sixteen tokens or
// dimensions. The results are sums[block][row][16].
struct MatrixTiles {
  static constexpr uint32_t kRows = 8, kColumns = 4;
  static constexpr uint32_t kLeastRows = 6;                // by count, fewer rows gain nothing
  static constexpr uint32_t kDims = 64;                    // of one step of keys
  static constexpr uint32_t kLowPlane = kLevelPlaneBytes;  // after the high one
  using Sums = int32_t[kColumns][kRows * kLanes];

  // Sets the shapes: 0 to 3 have the sums of a block each, 4 and 5 the levels of queries and of K,
  // 6 and 7 the levels of weights and of V.
  MatrixTiles() {
    TileShapes shapes;
    for (uint32_t tile = 0; tile < 5; ++tile) shapes.set(tile, kRows, 64);
    shapes.set(5, 16, 64);
    shapes.set(6, kRows, 32);
    shapes.set(7, 8, 64);
    shapes.load();
  }
  ~MatrixTiles() { _tile_release(); }
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

  // Computes Σ level of a query · byte of K over n_steps · kDims dimensions. queries: [kRows] rows
  // of row_bytes; keys: by block, [dims / 4][16 tokens][4]
  static void multiply_keys(const int8_t* queries, size_t row_bytes,
                            const uint8_t* const (&keys)[kColumns], uint32_t n_steps, Sums& sums) {
    constexpr size_t kStep = kDims * kLanes;
    clear();
    for (uint32_t i = 0; i < n_steps; ++i) {
      _tile_loadd(4, queries + kDims * i, row_bytes);
      _tile_loadd(5, keys[0] + kStep * i, 64);
      _tile_dpbsud(0, 4, 5);
      _tile_loadd(5, keys[1] + kStep * i, 64);
      _tile_dpbsud(1, 4, 5);
      _tile_loadd(5, keys[2] + kStep * i, 64);
      _tile_dpbsud(2, 4, 5);
      _tile_loadd(5, keys[3] + kStep * i, 64);
      _tile_dpbsud(3, 4, 5);
    }
    store(sums);
  }

  // Computes Σ level of a weight · level of V over the tokens of some pages. A page has `values`,
  // [blocks][8][16 dimensions][4 tokens], and `levels_at`, the offset of its tokens in a row of
  // levels.
  template <class Pages>
  static void multiply_values(const uint8_t* levels, const Pages& pages,
                              const uint32_t (&blocks)[kColumns], Sums& sums) {
    constexpr size_t kBlock = 8 * 64;
    clear();
    for (uint32_t i = 0; i < pages.n; ++i) {
      const int8_t* values = pages.pages[i].values;
      _tile_loadd(6, levels + pages.pages[i].levels_at, kLevelStride);
      _tile_loadd(7, values + kBlock * blocks[0], 64);
      _tile_dpbusd(0, 6, 7);
      _tile_loadd(7, values + kBlock * blocks[1], 64);
      _tile_dpbusd(1, 6, 7);
      _tile_loadd(7, values + kBlock * blocks[2], 64);
      _tile_dpbusd(2, 6, 7);
      _tile_loadd(7, values + kBlock * blocks[3], 64);
      _tile_dpbusd(3, 6, 7);
    }
    store(sums);
  }

  static IntSums load(const Sums& sums, uint32_t block, uint32_t row) {
    return _mm512_load_si512(sums[block] + row * kLanes);
  }
  static IntSums add(IntSums a, IntSums b) { return _mm512_add_epi32(a, b); }

 private:
  static void clear() {
    asm volatile("" : : : "memory");  // the intrinsics do not say that they read memory
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  static void store(Sums& sums) {
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
  }
};

}  // namespace kvik::cpu::amx
