#include "backend/cuda/matmul/matmul.h"

#include <algorithm>

#include "base/check.h"

namespace kvik::cuda {
namespace {

// Smallest number of rows for which matrix instructions are faster than products of eight rows at a
// time.
constexpr uint32_t kRowsWorthFragments = 17;

uint32_t round_up(uint32_t n, uint32_t unit) { return ceil_div(n, unit) * unit; }
size_t round_up_bytes(size_t n) { return (n + 255) / 256 * 256; }

// Returns whether the weights are floats, which have no kernel for many rows.
bool is_float(const WeightKernels& kernels) { return !kernels.many.code.start; }

uint32_t max_heads(const WorkLimits& limits) {
  uint32_t most = 1;
  for (const HeadsUse& use : limits.heads) most = std::max(most, use.n_heads);
  return most;
}

// A kernel and the shape of its grid.
struct Choice {
  const Kernel<MultiplyTask>& kernel;
  // Maximum number of rows of a tile.
  uint32_t tile_rows;
  uint32_t n_panels;  // panels per thread block
  uint32_t n_threads;
};

Choice choose(const WeightKernels& kernels, uint32_t max_rows, bool multiplies_fragments) {
  if (is_float(kernels)) {
    const uint32_t i = max_rows > kFloatRows[0];
    return {kernels.few[i], kFloatRows[i], 1, kFloatThreads};
  }
  if (multiplies_fragments && max_rows >= kRowsWorthFragments) {
    return {kernels.many, kManyRows, kManyPanels, kManyThreads};
  }
  const uint32_t i = max_rows > kFewRows[1] ? 2 : max_rows > kFewRows[0] ? 1 : 0;
  return {kernels.few[i], kFewRows[i], 1, kFewThreads};
}

// Returns the number of leading parts that can be multiplied as one: they have the same type and
// column order, and all except the last consist of whole panels.
size_t parts_as_one(std::span<const CudaPackedMatrix::Part> parts) {
  size_t n = 1;
  while (n < parts.size() && parts[n].type == parts[0].type && parts[n].gather == parts[0].gather &&
         parts[n - 1].n_rows % kPanelColumns == 0) {
    ++n;
  }
  return n;
}

}  // namespace

bool can_multiply(const MatmulKernels& kernels, ElementType type) {
  return kernels.by_type[static_cast<size_t>(type)].few[0].code.start != nullptr;
}

size_t Matmul::activation_bytes(uint32_t n_rows, uint32_t k) {
  const size_t n_blocks = round_up(k / kBlock, 16);
  return round_up_bytes(size_t{n_rows} * k) + 2 * round_up_bytes(n_rows * n_blocks * 4) +
         round_up_bytes(size_t{n_rows} * 4);
}

Activations Matmul::place(uint32_t n_rows, uint32_t k) const {
  const uint32_t n_blocks = round_up(k / kBlock, 16);
  std::byte* levels = activations_.data();
  std::byte* shifts = levels + round_up_bytes(size_t{n_rows} * k);
  std::byte* sums = shifts + round_up_bytes(size_t{n_rows} * n_blocks * 4);
  std::byte* scales = sums + round_up_bytes(size_t{n_rows} * n_blocks * 4);
  return {.levels = reinterpret_cast<int8_t*>(levels),
          .shifts = reinterpret_cast<float*>(shifts),
          .sums = reinterpret_cast<uint32_t*>(sums),
          .scales = reinterpret_cast<float*>(scales),
          .n_blocks = n_blocks};
}

uint64_t Matmul::scratch_bytes(const WorkLimits& limits) const {
  uint64_t bytes = 0;
  for (const WeightKind& weights : limits.weights) {
    if (is_float(kernels_.by_type[static_cast<size_t>(weights.type)])) continue;
    // The rows of experts are quantized once for all experts, or come from another product.
    const uint32_t n_rows = weights.use == WeightUse::kHeads ? limits.n_rows * max_heads(limits)
                            : weights.use == WeightUse::kExperts
                                ? std::max(limits.n_rows, limits.n_expert_rows)
                                : limits.n_rows;
    bytes = std::max<uint64_t>(bytes, activation_bytes(n_rows, weights.n_cols));
  }
  return bytes;
}

void Matmul::reserve(const WorkLimits& limits) {
  memory_.grow(activations_, scratch_bytes(limits));
}

void Matmul::quantize(const Input& in, const uint32_t* gather) {
  memory_.grow(activations_, activation_bytes(in.n_rows, in.k));
  const Grid grid = {.x = 1, .y = grid_rows(in.n_rows), .z = 1, .n_threads = kQuantThreads};
  require(stream_.launch(kernels_.quantize, grid,
                         {.x = in.x,
                          .stride = in.stride,
                          .step = in.step,
                          .n_heads = in.n_heads,
                          .n_rows = in.n_rows,
                          .k = in.k,
                          .gather = gather,
                          .out = place(in.n_rows, in.k)}));
}

// Multiplies by `parts`, those of the first matrix. The other matrices have equal parts, in the
// same order.
void Matmul::multiply(const Input& in, std::span<const Part> parts, const Product& product) {
  bool is_quantized = false;
  const uint32_t* order = nullptr;
  for (size_t i = 0; i < parts.size();) {
    const Part& part = parts[i];
    const size_t n = product.n_matrices == 1 ? parts_as_one(parts.subspan(i)) : 1;
    if (!is_float(kernels_.by_type[static_cast<size_t>(part.type)]) &&
        (!is_quantized || order != part.gather)) {
      quantize(in, part.gather);
      is_quantized = true;
      order = part.gather;
    }
    const Part& last = parts[i + n - 1];
    Product with_out = product;
    with_out.task.out += part.first_row - parts[0].first_row;
    with_out.task.x = place(in.n_rows, in.k);
    with_out.task.weights = part.panels;
    launch(part, with_out, last.first_row + last.n_rows - part.first_row);
    i += n;
  }
}

void Matmul::launch(const Part& part, const Product& product, uint32_t n_columns) {
  uint32_t max_rows = product.groups.empty() ? product.task.n_rows : 0;
  for (const RowGroup& group : product.groups) max_rows = std::max(max_rows, group.n_rows);
  if (product.routed) max_rows = product.routed->likely_rows();
  const WeightKernels& kernels = kernels_.by_type[static_cast<size_t>(part.type)];
  const Choice choice = choose(kernels, max_rows, stream_.info().multiplies_fragments);
  MultiplyTask task = product.task;
  task.panel_bytes = part.panel_bytes;
  task.n_columns = n_columns;
  task.tile_rows = choice.tile_rows;
  uint32_t n_tiles = ceil_div(task.n_rows, choice.tile_rows);
  if (!product.groups.empty()) {
    tiles_.clear();
    for (const RowGroup& group : product.groups) {
      for (uint32_t first = 0; first < group.n_rows; first += choice.tile_rows) {
        tiles_.push_back(
            {group.matrix, group.first + first, std::min(choice.tile_rows, group.n_rows - first)});
      }
    }
    n_tiles = static_cast<uint32_t>(tiles_.size());
    task.tiles = tables_.put<RowTile>(tiles_);
  }
  if (product.routed) {
    task.tiles = product.routed->tiles(choice.tile_rows);
    n_tiles = product.routed->n_tiles(choice.tile_rows);
  }
  CHECK(n_tiles <= kMaxGridRows);
  const Grid grid = {.x = ceil_div(n_columns, choice.n_panels * kPanelColumns),
                     .y = n_tiles,
                     .z = 1,
                     .n_threads = choice.n_threads};
  require(stream_.launch(choice.kernel, grid, task));
}

void Matmul::run(Rows x, const CudaPackedMatrix& w, Rows out, MatmulInto into) {
  CHECK(x.n_cols == w.n_cols() && out.n_cols == w.n_rows() && x.n_rows == out.n_rows);
  if (x.n_rows == 0) return;
  const Input in = {x.data, x.stride, 0, 1, x.n_rows, x.n_cols};
  multiply(in, w.parts(),
           {.task = {.k = x.n_cols,
                     .floats = x.data,
                     .float_stride = x.stride,
                     .x_row_step = 1,
                     .out = out.data,
                     .out_stride = out.stride,
                     .adds = into == MatmulInto::kAdd,
                     .n_rows = x.n_rows},
            .n_matrices = 1,
            .groups = {}});
}

void Matmul::run_grouped(Rows x, const CudaPackedMatrix& w, const GroupedRows& groups, Rows out) {
  CHECK(groups.n_matrices > 0 && w.parts().size() % groups.n_matrices == 0);
  CHECK(x.n_cols == w.n_cols() && size_t{out.n_cols} * groups.n_matrices == w.n_rows());
  if (groups.groups.empty()) return;
  const RowGroup& last = groups.groups.back();
  CHECK(out.n_rows == last.first + last.n_rows);
  CHECK(groups.rows.empty() ? x.n_rows == out.n_rows : groups.rows.size() == out.n_rows);
  for (const uint32_t row : groups.rows) CHECK(row < x.n_rows);
  for (const RowGroup& group : groups.groups) CHECK(group.matrix < groups.n_matrices);
  const size_t n_parts = w.parts().size() / groups.n_matrices;
  const Input in = {x.data, x.stride, 0, 1, x.n_rows, x.n_cols};
  multiply(in, w.parts().first(n_parts),
           {.task = {.matrix_bytes = w.bytes() / groups.n_matrices,
                     .k = x.n_cols,
                     .floats = x.data,
                     .float_stride = x.stride,
                     .x_rows = tables_.put(groups.rows),
                     .x_row_step = 1,
                     .out = out.data,
                     .out_stride = out.stride,
                     .n_rows = out.n_rows},
            .n_matrices = groups.n_matrices,
            .groups = groups.groups});
}

void Matmul::run_routed(Rows x, const CudaPackedMatrix& w, const RoutedLists& lists, Routed routed,
                        Rows out) {
  const uint32_t n_matrices = lists.n_experts;
  const bool is_gathered = routed == Routed::kChosen;
  CHECK(is_gathered || routed == Routed::kInOrder);
  CHECK(n_matrices > 0 && w.parts().size() % n_matrices == 0);
  CHECK(x.n_cols == w.n_cols() && size_t{out.n_cols} * n_matrices == w.n_rows());
  CHECK(out.n_rows == lists.n_choices);
  CHECK(x.n_rows == (is_gathered ? lists.n_rows : out.n_rows));
  if (out.n_rows == 0) return;
  const Input in = {x.data, x.stride, 0, 1, x.n_rows, x.n_cols};
  multiply(in, w.parts().first(w.parts().size() / n_matrices),
           {.task = {.matrix_bytes = w.bytes() / n_matrices,
                     .k = x.n_cols,
                     .floats = x.data,
                     .float_stride = x.stride,
                     .x_rows = is_gathered ? lists.order : nullptr,
                     .x_row_step = 1,
                     .out = out.data,
                     .out_stride = out.stride,
                     .n_rows = out.n_rows},
            .n_matrices = n_matrices,
            .groups = {},
            .routed = &lists});
}

// Each head of a row is a separate row of the activations. The tiles of a head use the head's
// matrix.
void Matmul::run_heads(const HeadRows& x, const CudaPackedMatrix& w, const HeadRows& out) {
  const uint32_t n_rows = x.rows.n_rows;
  CHECK(x.n_heads > 0 && x.n_heads == out.n_heads && n_rows == out.rows.n_rows);
  CHECK(w.parts().size() == x.n_heads && x.n_cols == w.n_cols());
  CHECK(size_t{out.n_cols} * x.n_heads == w.n_rows());
  if (n_rows == 0) return;
  heads_.clear();
  for (uint32_t head = 0; head < x.n_heads; ++head) heads_.push_back({head, 0, n_rows});
  const float* first = x.rows.data + x.first;
  const Input in = {first, x.rows.stride, x.step, x.n_heads, n_rows * x.n_heads, x.n_cols};
  // Floats are read in place: in a row of x, each head begins `step` floats after the previous one.
  const bool are_floats = is_float(kernels_.by_type[static_cast<size_t>(w.parts()[0].type)]);
  MultiplyTask task = {.matrix_bytes = w.bytes() / x.n_heads,
                       .k = x.n_cols,
                       .floats = first,
                       .float_stride = 1,
                       .x_row_step = are_floats ? x.rows.stride : x.n_heads,
                       .x_matrix_step = are_floats ? x.step : 1,
                       .out = out.rows.data + out.first,
                       .out_stride = out.rows.stride,
                       .out_matrix_step = out.step,
                       .n_rows = n_rows};
  multiply(in, w.parts().first(1), {.task = task, .n_matrices = x.n_heads, .groups = heads_});
}

void Matmul::embed(const CudaPackedMatrix& table, std::span<const TokenId> tokens, Rows out) {
  CHECK(out.n_rows == tokens.size() && out.n_cols == table.n_cols());
  for (const TokenId token : tokens) CHECK(token < table.n_rows());
  for (const Part& part : table.parts()) {
    CHECK(part.gather == nullptr);
    const Grid grid = {.x = ceil_div(table.n_cols(), kEmbedThreads),
                       .y = grid_rows(out.n_rows),
                       .z = 1,
                       .n_threads = kEmbedThreads};
    require(stream_.launch(kernels_.by_type[static_cast<size_t>(part.type)].embed, grid,
                           {.panels = part.panels,
                            .panel_bytes = part.panel_bytes,
                            .k = table.n_cols(),
                            .first_row = part.first_row,
                            .n_rows = part.n_rows,
                            .tokens = tables_.put(tokens),
                            .n_tokens = out.n_rows,
                            .out = out.data,
                            .out_stride = out.stride}));
  }
}

}  // namespace kvik::cuda
