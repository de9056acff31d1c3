#include "backend/cuda/state/state_kernels.h"

#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/kernel/words.cuh"
#include "backend/exact_math.h"

namespace kvik::cuda {
namespace {

__device__ __forceinline__ float* row_of(const RowsView& x, uint32_t row) {
  return x.data + row * x.stride;
}

// Returns the input of a channel at row `row` of the run. Rows below 0 come from the state.
__device__ __forceinline__ float input_of(const ConvTask& t, const PlacedState& run, int row,
                                          uint32_t channel) {
  return row < 0 ? run.state[(row + static_cast<int>(t.kernel_size) - 1) *
                                 static_cast<size_t>(t.n_channels) +
                             channel]
                 : row_of(t.x, run.first_row + row)[channel];
}

__global__ void short_conv(ConvTask t) {
  const uint32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= t.n_channels) return;
  const PlacedState run = t.runs[blockIdx.y];
  const int before = static_cast<int>(t.kernel_size) - 1;
  for (uint32_t token = 0; token < run.n_rows; ++token) {
    float sum = t.bias ? t.bias[channel] : 0.0f;
    for (uint32_t i = 0; i < t.kernel_size; ++i) {
      const float conv_weight = t.conv_weights[static_cast<size_t>(i) * t.n_channels + channel];
      sum = fmaf(conv_weight, input_of(t, run, static_cast<int>(token + i) - before, channel), sum);
    }
    if (t.is_activated) sum = silu(sum);
    row_of(t.out, run.first_row + token)[channel] = sum;
  }
  // From the oldest input on, because each place is filled from a later one.
  for (int i = 0; i < before; ++i) {
    run.state[i * static_cast<size_t>(t.n_channels) + channel] =
        input_of(t, run, static_cast<int>(run.n_kept) + i - before, channel);
  }
}

__global__ void l2_norm(L2NormTask t) {
  const uint32_t lane = threadIdx.x % kLanes;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, row) + static_cast<size_t>(blockIdx.x) * t.n;
    float squares = 0.0f;
    for (uint32_t i = lane; i < t.n; i += kLanes) squares = fmaf(x[i], x[i], squares);
    const float factor = t.scale / sqrtf(sum_of_16(squares) + t.eps);
    for (uint32_t i = threadIdx.x; i < t.n; i += 32) x[i] = x[i] * factor;
  }
}

// Computes in double precision, with exponentials that have the same bits on all processors.
enum class Gate : uint8_t { kDelta, kSteps, kBounded };
template <Gate kGate>
__global__ void gate(GateTask t) {
  const uint32_t head = blockIdx.x * blockDim.x + threadIdx.x;
  if (head >= t.n_heads) return;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    float& a = row_of(t.a, row)[head];
    float& b = row_of(t.b, row)[head];
    const double factor = t.factors[head];
    const double input = static_cast<double>(a) + static_cast<double>(t.biases[head]);
    if constexpr (kGate == Gate::kBounded) {
      const double share = exact_sigmoid(factor * input);
      b = static_cast<float>(exact_exp(static_cast<double>(t.bound) * share));
    } else {
      const double step = exact_softplus(input);
      const auto decay = static_cast<float>(exact_exp(factor * step));
      a = kGate == Gate::kDelta ? decay : static_cast<float>(step);
      b = kGate == Gate::kDelta ? static_cast<float>(exact_sigmoid(b)) : decay;
    }
  }
}

// Sums over the channels of a key have two chains: one of the even channels and one of the odd
// channels.
struct Chains {
  float even = 0.0f, odd = 0.0f;
  __device__ void add(float factor, float value, uint32_t i) {
    if (i % 2 == 0) {
      even = fmaf(factor, value, even);
    } else {
      odd = fmaf(factor, value, odd);
    }
  }
  __device__ float total() const { return even + odd; }
};

// One column of a head's matrix, which one lane processes.
struct Column {
  float* matrix;  // element of key channel 0
  uint32_t step;  // distance to the next channel
  uint32_t key_dim;
  // First float of the head in a row of q and k, and of the column in a row of v and out.
  size_t of_keys, of_values;

  // Applies the delta rule to one token: the column decays and is multiplied by the key, is then
  // corrected, and is multiplied by the query.
  __device__ void pass_delta(const RecurrenceTask& t, uint32_t head, uint32_t row) const {
    const float* k = row_of(t.k, row) + of_keys;
    const float* q = row_of(t.q, row) + of_keys;
    const float* decays = row_of(t.decay, row) + (t.decays_keys ? head * key_dim : head);
    Chains said;
    for (uint32_t i = 0; i < key_dim; ++i) {
      const float value = matrix[i * step] * decays[t.decays_keys ? i : 0];
      matrix[i * step] = value;
      said.add(value, k[i], i);
    }
    const float rate = row_of(t.rate, row)[head];
    const float delta = (row_of(t.v, row)[of_values] - said.total()) * rate;
    Chains out;
    for (uint32_t i = 0; i < key_dim; ++i) {
      const float value = fmaf(k[i], delta, matrix[i * step]);
      matrix[i * step] = value;
      out.add(value, q[i], i);
    }
    row_of(t.out, row)[of_values] = out.total();
  }

  // Applies the state-space recurrence to one token, which has no correction.
  __device__ void pass_space(const RecurrenceTask& t, uint32_t head, uint32_t row) const {
    const float* k = row_of(t.k, row) + of_keys;
    const float* q = row_of(t.q, row) + of_keys;
    const float decay = row_of(t.decay, row)[head];
    const float v = row_of(t.v, row)[of_values];
    const float delta = v * row_of(t.rate, row)[head];
    Chains out;
    for (uint32_t i = 0; i < key_dim; ++i) {
      const float value = fmaf(k[i], delta, matrix[i * step] * decay);
      matrix[i * step] = value;
      out.add(value, q[i], i);
    }
    row_of(t.out, row)[of_values] = fmaf(t.skips[head], v, out.total());
  }
};

template <bool kIsDelta>
__global__ void recur(RecurrenceTask t) {
  const PlacedState run = t.runs[blockIdx.z];
  const uint32_t head = blockIdx.y;
  const uint32_t first = blockIdx.x * kStateColumns;
  const uint32_t n_columns = lesser(kStateColumns, t.value_dim - first);
  if (threadIdx.x >= n_columns) return;
  const uint32_t key_head = t.is_tiled ? head % t.n_key_heads : head / (t.n_heads / t.n_key_heads);
  const size_t of_head = static_cast<size_t>(t.key_dim) * t.value_dim * head;
  Column column = {
      .matrix = run.state + of_head + static_cast<size_t>(first) * t.key_dim + threadIdx.x,
      .step = n_columns,
      .key_dim = t.key_dim,
      .of_keys = static_cast<size_t>(key_head) * t.key_dim,
      .of_values = static_cast<size_t>(head) * t.value_dim + first + threadIdx.x};
  for (uint32_t token = 0; token < run.n_rows; ++token) {
    if (token == run.n_kept) {  // draft tokens work on a copy
      const size_t block =
          (static_cast<size_t>(run.scratch) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      float* copy = t.scratch + block * t.key_dim * kStateColumns + threadIdx.x;
      for (uint32_t i = 0; i < t.key_dim; ++i) copy[i * n_columns] = column.matrix[i * n_columns];
      column.matrix = copy;
    }
    if constexpr (kIsDelta) {
      column.pass_delta(t, head, run.first_row + token);
    } else {
      column.pass_space(t, head, run.first_row + token);
    }
  }
}

// Draft tokens follow those that the state keeps.
__global__ void selective_scan(ScanTask t) {
  const uint32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= t.n_channels) return;
  const PlacedState run = t.runs[blockIdx.y];
  float state[kMaxScanState];
  for (uint32_t n = 0; n < t.state_dim; ++n) {
    state[n] = run.state[static_cast<size_t>(n) * t.n_channels + channel];
  }
  for (uint32_t token = 0; token <= run.n_rows; ++token) {
    if (token == run.n_kept) {
      for (uint32_t n = 0; n < t.state_dim; ++n) {
        run.state[static_cast<size_t>(n) * t.n_channels + channel] = state[n];
      }
    }
    if (token == run.n_rows) return;
    const uint32_t row = run.first_row + token;
    const float* b = row_of(t.b, row);
    const float* c = row_of(t.c, row);
    const auto step =
        static_cast<float>(exact_softplus(static_cast<double>(row_of(t.steps, row)[channel]) +
                                          static_cast<double>(t.biases[channel])));
    const float x = row_of(t.x, row)[channel];
    const float added = step * x;
    float out = t.skips[channel] * x;
    for (uint32_t n = 0; n < t.state_dim; ++n) {
      const float factor = t.factors[static_cast<size_t>(n) * t.n_channels + channel];
      state[n] = fmaf(exp_of(step * factor), state[n], b[n] * added);
      out = fmaf(c[n], state[n], out);
    }
    row_of(t.out, row)[channel] = out;
  }
}

}  // namespace

const StateKernels kStateKernels = {
    .gates = kernel_of<GateTask, gate<Gate::kDelta>>("gates"),
    .steps = kernel_of<GateTask, gate<Gate::kSteps>>("steps"),
    .bounded_decays = kernel_of<GateTask, gate<Gate::kBounded>>("bounded_decays"),
    .short_conv = kernel_of<ConvTask, short_conv>("short_conv"),
    .l2_norm = kernel_of<L2NormTask, l2_norm>("l2_norm"),
    .delta_rule = kernel_of<RecurrenceTask, recur<true>>("delta_rule"),
    .state_space = kernel_of<RecurrenceTask, recur<false>>("state_space"),
    .selective_scan = kernel_of<ScanTask, selective_scan>("selective_scan"),
};

}  // namespace kvik::cuda
