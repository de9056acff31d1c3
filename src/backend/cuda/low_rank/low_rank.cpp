#include "backend/cuda/low_rank/low_rank.h"

#include <algorithm>

#include "backend/layout/low_rank_panels.h"
#include "base/check.h"

namespace kvik::cuda {
namespace {

LowRankType low_rank_type(ElementType type) {
  return type == ElementType::kF16    ? LowRankType::kF16
         : type == ElementType::kBF16 ? LowRankType::kBF16
                                      : LowRankType::kF32;
}

const uint8_t* bytes_at(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

}  // namespace

CudaLowRankMatrix::CudaLowRankMatrix(const LowRankView& view, Memory& memory, std::byte* place) {
  const uint64_t n_bytes = LowRankPanels::bytes_of(view.type, view.n_rows, view.n_cols, view.rank);
  std::vector<std::byte> bytes(n_bytes);
  const LowRankPanels on_host(view, bytes.data());
  memory.copy_in(place, bytes);
  weights_ = {.a = bytes_at(place),
              .b = bytes_at(place + (on_host.b(0) - bytes.data())),
              .type = low_rank_type(view.type),
              .n_rows = view.n_rows,
              .n_cols = view.n_cols,
              .rank = view.rank,
              .padded_rank = on_host.padded_rank(),
              .scale = view.scale};
}

void LowRank::add(Rows x, std::span<const LowRankTerm> terms, Rows out) {
  rows_.clear();
  uint32_t max_rank = 0, max_columns = 0;
  for (const LowRankTerm& term : terms) {
    const auto& matrix = static_cast<const CudaLowRankMatrix&>(*term.matrix);
    CHECK(uint64_t{term.x_column} + matrix.n_cols() <= x.n_cols);
    CHECK(uint64_t{term.out_column} + matrix.n_rows() <= out.n_cols);
    CHECK(term.x_rows.size() == term.out_rows.size());
    for (size_t i = 0; i < term.x_rows.size(); ++i) {
      CHECK(term.x_rows[i] < x.n_rows && term.out_rows[i] < out.n_rows);
      rows_.push_back({.weights = matrix.weights(),
                       .x = x.data + size_t{term.x_rows[i]} * x.stride + term.x_column,
                       .out = out.data + size_t{term.out_rows[i]} * out.stride + term.out_column});
      max_rank = std::max(max_rank, matrix.rank());
      max_columns = std::max(max_columns, matrix.n_rows());
    }
  }
  if (rows_.empty()) return;
  const auto n_rows = static_cast<uint32_t>(rows_.size());
  const size_t n_bytes = size_t{n_rows} * max_rank * sizeof(float);
  memory_.grow(sums_, n_bytes);
  const LowRankRow* rows = tables_.put<LowRankRow>(rows_);
  Grid grid = {.x = 1, .y = grid_rows(n_rows), .z = 1, .n_threads = kLowRankThreads};
  require(stream_.launch(
      kernels_.down, grid,
      {.rows = rows, .n_rows = n_rows, .sums = sums_.floats(), .sum_stride = max_rank}));
  grid.x = ceil_div(max_columns, kLowRankThreads);
  require(stream_.launch(
      kernels_.up, grid,
      {.rows = rows, .n_rows = n_rows, .sums = sums_.floats(), .sum_stride = max_rank}));
}

}  // namespace kvik::cuda
