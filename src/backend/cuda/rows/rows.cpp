#include "backend/cuda/rows/rows.h"

#include <algorithm>

#include "base/check.h"

namespace kvik::cuda {
namespace {

// Maximum size of a group for which rms_norm uses one warp.
constexpr uint32_t kNormOfOneWarp = 256;
constexpr uint32_t kNormThreads = 256;

bool same_shape(Rows a, Rows b) { return a.n_rows == b.n_rows && a.n_cols == b.n_cols; }

}  // namespace

// Launches an elementwise kernel, with a thread per column.
template <class Task>
void RowOperations::launch(const Kernel<Task>& kernel, uint32_t n_rows, uint32_t n_cols,
                           const Task& task) {
  const Grid grid = {
      .x = ceil_div(n_cols, kRowThreads), .y = grid_rows(n_rows), .z = 1, .n_threads = kRowThreads};
  require(stream_.launch(kernel, grid, task));
}

void RowOperations::copy_heads(const HeadRows& x, const HeadRows& out) {
  CHECK(x.n_heads == out.n_heads && x.n_cols == out.n_cols);
  CHECK(x.rows.n_rows == out.rows.n_rows);
  launch(kernels_.copy, x.rows.n_rows, x.n_heads * x.n_cols,
         {.from = x.rows.data + x.first,
          .from_stride = x.rows.stride,
          .from_step = x.step,
          .to = out.rows.data + out.first,
          .to_stride = out.rows.stride,
          .to_step = out.step,
          .numbers = nullptr,
          .n_rows = x.rows.n_rows,
          .n_heads = x.n_heads,
          .n_cols = x.n_cols});
}

void RowOperations::add_weighted(Rows x, Rows y, const WeightedRows& terms) {
  CHECK(x.n_cols == y.n_cols && terms.rows.size() == size_t{x.n_rows} * terms.n);
  CHECK(terms.weights.size() == terms.rows.size());
  for (const uint32_t row : terms.rows) CHECK(row < y.n_rows);
  launch(kernels_.add_weighted, x.n_rows, x.n_cols,
         {.x = on_device(x),
          .y = y.data,
          .y_stride = y.stride,
          .rows = tables_.put(terms.rows),
          .weights = tables_.put(terms.weights),
          .n = terms.n});
}

void RowOperations::add_routed(Rows x, Rows y, const RoutedLists& lists, Routed routed) {
  const bool is_shared = routed == Routed::kShared;
  CHECK(is_shared || routed == Routed::kChosen);
  CHECK(x.n_cols == y.n_cols && x.n_rows == lists.n_rows);
  CHECK(y.n_rows == (is_shared ? lists.n_rows : lists.n_choices));
  launch(kernels_.add_weighted, x.n_rows, x.n_cols,
         {.x = on_device(x),
          .y = y.data,
          .y_stride = y.stride,
          .rows = is_shared ? nullptr : lists.places,
          .weights = is_shared ? lists.shared_weights : lists.weights,
          .n = is_shared ? 1 : lists.n_used()});
}

void RowOperations::rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps,
                             Rows out) {
  CHECK(same_shape(x, out) && weight_size > 0 && x.n_cols % weight_size == 0);
  const Grid grid = {.x = x.n_cols / weight_size,
                     .y = grid_rows(x.n_rows),
                     .z = 1,
                     .n_threads = weight_size <= kNormOfOneWarp ? 32 : kNormThreads};
  require(stream_.launch(
      kernels_.rms_norm, grid,
      {.x = on_device(x), .out = on_device(out), .weight = weight, .n = weight_size, .eps = eps}));
}

void RowOperations::gather(Rows x, std::span<const uint32_t> rows, Rows out) {
  CHECK(out.n_rows == rows.size() && out.n_cols == x.n_cols);
  for (const uint32_t row : rows) CHECK(row < x.n_rows);
  launch(kernels_.copy, out.n_rows, x.n_cols,
         {.from = x.data,
          .from_stride = x.stride,
          .from_step = 0,
          .to = out.data,
          .to_stride = out.stride,
          .to_step = 0,
          .numbers = tables_.put(rows),
          .n_rows = out.n_rows,
          .n_heads = 1,
          .n_cols = x.n_cols});
}

void RowOperations::add(Rows x, Rows y) {
  CHECK(same_shape(x, y));
  launch(kernels_.add, x.n_rows, x.n_cols,
         {.x = on_device(x), .y = y.data, .y_stride = y.stride, .numbers = nullptr});
}

void RowOperations::add_bias(Rows x, const float* bias) {
  launch(kernels_.add, x.n_rows, x.n_cols,
         {.x = on_device(x), .y = bias, .y_stride = 0, .numbers = nullptr});
}

void RowOperations::scale(Rows x, float factor) {
  launch(kernels_.scale, x.n_rows, x.n_cols,
         {.x = on_device(x),
          .factors = nullptr,
          .factors_stride = 0,
          .n_columns = x.n_cols,
          .factor = factor});
}

void RowOperations::add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) {
  matrix_of_row_.clear();
  for (const RowGroup& group : groups.groups) {
    CHECK(group.matrix < groups.n_matrices && group.first == matrix_of_row_.size());
    matrix_of_row_.insert(matrix_of_row_.end(), group.n_rows, group.matrix);
  }
  CHECK(matrix_of_row_.size() <= x.n_rows);
  const Rows grouped = x.slice(0, static_cast<uint32_t>(matrix_of_row_.size()));
  launch(kernels_.add, grouped.n_rows, x.n_cols,
         {.x = on_device(grouped),
          .y = biases,
          .y_stride = x.n_cols,
          .numbers = tables_.put<uint32_t>(matrix_of_row_)});
}

void RowOperations::add_routed_bias(Rows x, const float* biases, const RoutedLists& lists) {
  CHECK(x.n_rows == lists.n_choices);
  launch(kernels_.add, x.n_rows, x.n_cols,
         {.x = on_device(x), .y = biases, .y_stride = x.n_cols, .numbers = lists.experts});
}

void RowOperations::scale_rows(Rows x, std::span<const float> factors) {
  CHECK(factors.size() == x.n_rows);
  launch(kernels_.scale, x.n_rows, x.n_cols,
         {.x = on_device(x),
          .factors = tables_.put(factors),
          .factors_stride = 1,
          .n_columns = x.n_cols,
          .factor = 0});
}

void RowOperations::scale_heads(Rows x, uint32_t head_dim, Rows factors) {
  CHECK(x.n_rows == factors.n_rows && x.n_cols == factors.n_cols * head_dim);
  launch(kernels_.scale, x.n_rows, x.n_cols,
         {.x = on_device(x),
          .factors = factors.data,
          .factors_stride = factors.stride,
          .n_columns = head_dim,
          .factor = 0});
}

void RowOperations::scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) {
  for (const uint32_t row : rows) CHECK(row < x.n_rows);
  launch(kernels_.scale_columns, static_cast<uint32_t>(rows.size()), x.n_cols,
         {.x = on_device(x),
          .factors = factors,
          .rows = tables_.put(rows),
          .n_rows = static_cast<uint32_t>(rows.size())});
}

void RowOperations::clear(Rows x) {
  launch(kernels_.clear, x.n_rows, x.n_cols, {.x = on_device(x)});
}

void RowOperations::soft_cap(Rows x, float cap) {
  launch(kernels_.soft_cap, x.n_rows, x.n_cols, {.x = on_device(x), .cap = cap});
}

void RowOperations::gated_activation(Activation activation, Rows gate, Rows up, Rows out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  launch(kernels_.gated_activation, gate.n_rows, gate.n_cols,
         {.gate = on_device(gate),
          .up = on_device(up),
          .out = on_device(out),
          .activation = activation});
}

void RowOperations::limited_silu(Rows gate, Rows up, float limit, Rows out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  launch(kernels_.limited_silu, gate.n_rows, gate.n_cols,
         {.gate = on_device(gate), .up = on_device(up), .out = on_device(out), .limit = limit});
}

void RowOperations::largest(Rows x, std::span<std::optional<uint32_t>> out) {
  CHECK(out.size() == x.n_rows);
  if (x.n_rows == 0) return;
  const size_t n_bytes = x.n_rows * sizeof(uint32_t);
  memory_.grow(largest_, n_bytes);
  const Grid grid = {.x = 1, .y = grid_rows(x.n_rows), .z = 1, .n_threads = kRowThreads};
  require(
      stream_.launch(kernels_.largest, grid,
                     {.x = on_device(x), .columns = reinterpret_cast<uint32_t*>(largest_.data())}));
  host_largest_.resize(x.n_rows);
  memory_.copy_out(std::as_writable_bytes(std::span(host_largest_)), largest_.data());
  for (size_t row = 0; row < out.size(); ++row) {
    const uint32_t column = host_largest_[row];
    out[row] = column == kNoColumn ? std::nullopt : std::optional(column);
  }
}

void RowOperations::rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) {
  CHECK(head_dim > 0 && 2 * angles.n_pairs <= head_dim);
  CHECK(x.n_cols % head_dim == 0 || x.n_cols % head_dim >= 2 * angles.n_pairs);
  const uint32_t n_heads = ceil_div(x.n_cols, head_dim);
  launch(kernels_.rope, x.n_rows, n_heads * angles.n_pairs,
         {.x = on_device(x),
          .cos = angles.cos,
          .sin = angles.sin,
          .head_dim = head_dim,
          .n_heads = n_heads,
          .n_pairs = angles.n_pairs,
          .pairing = pairing});
}

}  // namespace kvik::cuda
