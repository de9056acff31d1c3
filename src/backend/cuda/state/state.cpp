#include "backend/cuda/state/state.h"

#include "backend/cuda/device/kernel_tables.h"
#include "base/check.h"

namespace kvik::cuda {
namespace {

RowsView view_of(Rows x) { return {x.data, x.stride}; }

}  // namespace

State::State(Device& device, CudaMemory& memory, Tables& tables, ThreadPool& pool)
    : device_(device),
      memory_(memory),
      tables_(tables),
      kernels_(device.kernels().state),
      on_host_(cpu::scalar::kStateKernels, pool) {}

const PlacedState* State::place(std::span<const StateRun> runs, uint32_t n_rows) {
  CHECK(runs.size() <= kMostGridRows);
  placed_.clear();
  for (const StateRun& run : runs) {
    CHECK(run.state && run.first_row <= n_rows && run.n_rows <= n_rows - run.first_row);
    CHECK(run.n_guesses <= run.n_rows);
    placed_.push_back({run.state, run.first_row, run.n_rows, run.n_kept()});
  }
  return tables_.put<PlacedState>(placed_);
}

void State::short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out) {
  CHECK(x.n_rows == out.n_rows && x.n_cols == out.n_cols && shape.n_taps > 1);
  const Grid grid = {.x = ceil_div(x.n_cols, kStateThreads),
                     .y = static_cast<uint32_t>(runs.size()),
                     .z = 1,
                     .n_threads = kStateThreads};
  require(device_.launch(kernels_.short_conv, grid,
                         {.taps = shape.taps,
                          .bias = shape.bias,
                          .runs = place(runs, x.n_rows),
                          .x = view_of(x),
                          .out = view_of(out),
                          .n_channels = x.n_cols,
                          .n_taps = shape.n_taps,
                          .is_activated = shape.is_activated}));
}

void State::l2_norm(Rows x, uint32_t head_dim, float eps, float scale) {
  CHECK(head_dim > 0 && x.n_cols % head_dim == 0);
  const Grid grid = {.x = x.n_cols / head_dim, .y = grid_rows(x.n_rows), .z = 1, .n_threads = 32};
  require(device_.launch(
      kernels_.l2_norm, grid,
      {.x = view_of(x), .n_rows = x.n_rows, .n = head_dim, .eps = eps, .scale = scale}));
}

void State::copy(Rows from, Rows to) {
  const Grid grid = {.x = ceil_div(from.n_cols, kRowThreads),
                     .y = grid_rows(from.n_rows),
                     .z = 1,
                     .n_threads = kRowThreads};
  require(device_.launch(device_.kernels().rows.copy, grid,
                         {.from = from.data,
                          .from_stride = from.stride,
                          .from_step = 0,
                          .to = to.data,
                          .to_stride = to.stride,
                          .to_step = 0,
                          .numbers = nullptr,
                          .n_rows = from.n_rows,
                          .n_heads = 1,
                          .n_cols = from.n_cols}));
}

// function(a, b) with copies of both in host memory, that then take their places.
template <class Function>
void State::on_host(Rows a, Rows b, const Function& function) {
  CHECK(a.n_rows == b.n_rows && a.n_cols == b.n_cols);
  const size_t n = size_t{a.n_rows} * a.n_cols;
  if (gates_.size() < 2 * n * sizeof(float)) {
    gates_ = Buffer();
    gates_ = memory_.allocate(2 * n * sizeof(float));
  }
  host_gates_.resize(2 * n);
  const auto part = [&](float* first, size_t i) {
    return Rows{first + i * n, a.n_rows, a.n_cols, a.n_cols};
  };
  copy(a, part(gates_.floats(), 0));
  copy(b, part(gates_.floats(), 1));
  memory_.copy_out(std::as_writable_bytes(std::span(host_gates_)), gates_.data());
  function(part(host_gates_.data(), 0), part(host_gates_.data(), 1));
  memory_.copy_in(gates_.data(), std::as_bytes(std::span(host_gates_)));
  copy(part(gates_.floats(), 0), a);
  copy(part(gates_.floats(), 1), b);
}

void State::gates(Rows decay, Rows rate, std::span<const float> factors,
                  std::span<const float> biases) {
  on_host(decay, rate, [&](Rows a, Rows b) { on_host_.gates(a, b, factors, biases); });
}

void State::steps(Rows steps, Rows decay, std::span<const float> factors,
                  std::span<const float> biases) {
  on_host(steps, decay, [&](Rows a, Rows b) { on_host_.steps(a, b, factors, biases); });
}

void State::recur(const Kernel<RecurrenceTask>& kernel, const RecurrenceShape& shape,
                  std::span<const StateRun> runs, const RecurrenceRows& in,
                  std::span<const float> skips, Rows out) {
  CHECK(shape.key_dim % 16 == 0 && shape.value_dim % 16 == 0);
  CHECK(shape.n_heads % shape.n_key_heads == 0);
  CHECK(in.q.n_cols == shape.n_key_heads * shape.key_dim && in.k.n_cols == in.q.n_cols);
  CHECK(in.v.n_cols == shape.n_heads * shape.value_dim && out.n_cols == in.v.n_cols);
  const Grid grid = {.x = ceil_div(shape.value_dim, kStateColumns),
                     .y = shape.n_heads,
                     .z = static_cast<uint32_t>(runs.size()),
                     .n_threads = 32};
  bool has_guesses = false;
  for (const StateRun& run : runs) has_guesses |= run.n_guesses > 0;
  const size_t n_bytes = size_t{grid.x} * grid.y * grid.z * shape.key_dim * kStateColumns * 4;
  if (has_guesses && scratch_.size() < n_bytes) {
    scratch_ = Buffer();
    scratch_ = memory_.allocate(n_bytes);
  }
  require(device_.launch(kernel, grid,
                         {.runs = place(runs, out.n_rows),
                          .q = view_of(in.q),
                          .k = view_of(in.k),
                          .v = view_of(in.v),
                          .decay = view_of(in.decay),
                          .rate = view_of(in.rate),
                          .out = view_of(out),
                          .n_heads = shape.n_heads,
                          .n_key_heads = shape.n_key_heads,
                          .key_dim = shape.key_dim,
                          .value_dim = shape.value_dim,
                          .is_tiled = shape.is_tiled,
                          .skips = tables_.put(skips),
                          .scratch = scratch_.floats()}));
}

}  // namespace kvik::cuda
