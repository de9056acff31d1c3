#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/kernel/words.cuh"
#include "backend/cuda/rows/rows_kernels.h"

namespace kvik::cuda {
namespace {

__device__ __forceinline__ float* row_of(const DeviceRows& x, uint32_t row) {
  return x.data + row * x.stride;
}

// Returns the column that this thread computes in elementwise kernels.
__device__ __forceinline__ uint32_t column() { return blockIdx.x * blockDim.x + threadIdx.x; }

constexpr uint32_t kNormPiece = 1024;  // floats in shared memory at a time; a multiple of sixteen

// All threads load floats. Sixteen lanes of the first warp add up the squares, each of its own
// columns; the other sixteen lanes do the same work.
__global__ void rms_norm(RmsNormTask t) {
  __shared__ Shared<float, kNormPiece> piece;
  __shared__ Shared<float, 1> shared_factor;
  const size_t first = static_cast<size_t>(blockIdx.x) * t.n;
  const bool is_first_warp = threadIdx.x < 32;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    const float* x = row_of(t.x, row) + first;
    float* out = row_of(t.out, row) + first;
    float squares = 0.0f;
    for (uint32_t begin = 0; begin < t.n; begin += kNormPiece) {
      const uint32_t n = lesser(kNormPiece, t.n - begin);
      for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) piece.set(i, x[begin + i]);
      __syncthreads();
      for (uint32_t i = threadIdx.x % kLanes; is_first_warp && i < n; i += kLanes) {
        const float v = piece.get(i);
        squares = fmaf(v, v, squares);
      }
      __syncthreads();
    }
    if (is_first_warp) {
      const float mean = sum_of_16(squares) / static_cast<float>(t.n);
      if (threadIdx.x == 0) shared_factor.set(0, 1.0f / sqrtf(mean + t.eps));
    }
    __syncthreads();
    const float factor = shared_factor.get(0);
    for (uint32_t i = threadIdx.x; i < t.n; i += blockDim.x) out[i] = x[i] * factor * t.weight[i];
    __syncthreads();
  }
}

__global__ void add(AddTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    const uint32_t number = t.numbers ? t.numbers[row] : row;
    float* x = row_of(t.x, row);
    x[i] = x[i] + t.y[number * t.y_stride + i];
  }
}

__global__ void scale(ScaleTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, row);
    x[i] = x[i] * (t.factors ? t.factors[row * t.factors_stride + i / t.n_columns] : t.factor);
  }
}

__global__ void scale_columns(ScaleColumnsTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, t.rows[row]);
    x[i] = x[i] * t.factors[i];
  }
}

__global__ void clear(ClearTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) row_of(t.x, row)[i] = 0.0f;
}

__global__ void soft_cap(SoftCapTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, row);
    x[i] = soft_capped(x[i], t.cap);
  }
}

// Returns x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
__device__ __forceinline__ float gelu_tanh(float x) {
  const float cube = x * x * x;
  const float inner = 0x1.988454p-1f * fmaf(0.044715f, cube, x);
  return 0.5f * x * (1.0f + tanh_of(inner));
}

// Returns x · Φ(x), as the CPU computes it (rows.inl).
__device__ __forceinline__ float gelu(float x) {
  const float a = max_of(x, 0.0f - x);
  const float t = 1.0f / fmaf(0x1.fadaa8p-3f, a, 1.0f);
  float p = fmaf(0x1.e468cap-6f, t, -0x1.6eae9p-3f);
  p = fmaf(p, t, 0x1.7851c4p-2f);
  p = fmaf(p, t, -0x1.2ea81p-2f);
  p = fmaf(p, t, 0x1.13f654p-2f);
  p = fmaf(p, t, 0x1.7e0fbcp-10f);
  p = fmaf(p, t, 0x1.c8bb5p-4f);
  p = fmaf(p, t, 0x1.8a0bccp-4f);
  p = fmaf(p, t, 0x1.950372p-4f);
  return max_of(x, 0.0f) - a * (p * t * exp_of(-0.5f * a * a));
}

// Returns x · sigmoid(1.702 x) · (y + 1), with x = min(gate, 7) and y = up clamped to ±7.
__device__ __forceinline__ float clamped_swish(float gate, float up) {
  const float x = min_of(gate, 7.0f);
  const float y = min_of(max_of(up, -7.0f), 7.0f);
  return x / (1.0f + exp_of(-1.702f * x)) * (y + 1.0f);
}

__device__ __forceinline__ float activated(Activation activation, float gate, const float* up) {
  switch (activation) {
    case Activation::kSilu:
      return silu(gate) * *up;
    case Activation::kGeluTanh:
      return gelu_tanh(gate) * *up;
    case Activation::kClampedSwish:
      return clamped_swish(gate, *up);
    case Activation::kSigmoid:
      return *up / (1.0f + exp_of(0.0f - gate));
    case Activation::kNone:
      return gate * *up;
    case Activation::kGelu:
      return gelu(gate);
    case Activation::kPlainGeluTanh:
      return gelu_tanh(gate);
    case Activation::kGatedGelu:
      return gelu(gate) * *up;
    case Activation::kReluSquared:
    case Activation::kXielu:  // refused
      break;
  }
  const float x = max_of(gate, 0.0f);
  return x * x;
}

__global__ void gated_activation(ActivationTask t) {
  const uint32_t i = column();
  if (i >= t.gate.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.gate.n_rows; row += gridDim.y) {
    row_of(t.out, row)[i] = activated(t.activation, row_of(t.gate, row)[i], row_of(t.up, row) + i);
  }
}

__global__ void limited_silu(LimitedSiluTask t) {
  const uint32_t i = column();
  if (i >= t.gate.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.gate.n_rows; row += gridDim.y) {
    const float x = min_of(silu(row_of(t.gate, row)[i]), t.limit);
    row_of(t.out, row)[i] = x * min_of(max_of(row_of(t.up, row)[i], -t.limit), t.limit);
  }
}

// A number and its column. take() keeps the larger of two numbers, and the first of equal ones.
struct Largest {
  float value;
  uint32_t column;

  __device__ void take(Largest other) {
    const bool is_larger = other.value > value;
    const bool is_first = other.value == value && other.column < column;
    if (is_larger || is_first) *this = other;
  }
};

__global__ void largest(LargestTask t) {
  __shared__ Shared<float, kRowThreads> values;
  __shared__ Shared<uint32_t, kRowThreads> columns;
  const float infinity = __int_as_float(0x7f800000);
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    const float* x = row_of(t.x, row);
    Largest best = {-infinity, kNoColumn};
    for (uint32_t i = threadIdx.x; i < t.x.n_cols; i += kRowThreads) {
      // This is false for NaN.
      if (x[i] > best.value && x[i] < infinity) best = {x[i], i};
    }
    values.set(threadIdx.x, best.value);
    columns.set(threadIdx.x, best.column);
    __syncthreads();
    for (uint32_t half = kRowThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        best.take({values.get(threadIdx.x + half), columns.get(threadIdx.x + half)});
        values.set(threadIdx.x, best.value);
        columns.set(threadIdx.x, best.column);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) t.columns[row] = best.column;
    __syncthreads();
  }
}

// Rotates (a, b) by the angle whose cosine and sine are (c, s). Each product and sum is rounded
// separately.
__global__ void rope(RopeTask t) {
  const uint32_t i = column();
  if (i >= t.n_heads * t.n_pairs) return;
  const uint32_t pair = i % t.n_pairs;
  const bool are_halves = t.pairing == RopePairing::kHalves;
  const size_t first = static_cast<size_t>(i / t.n_pairs) * t.head_dim;
  const size_t at_a = first + (are_halves ? pair : 2 * pair);
  const size_t at_b = at_a + (are_halves ? t.n_pairs : 1);
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, row);
    const float c = t.cos[static_cast<size_t>(row) * t.n_pairs + pair];
    const float s = t.sin[static_cast<size_t>(row) * t.n_pairs + pair];
    const float a = x[at_a];
    const float b = x[at_b];
    x[at_a] = a * c - b * s;
    x[at_b] = a * s + b * c;
  }
}

__global__ void copy(CopyTask t) {
  const uint32_t i = column();
  if (i >= t.n_heads * t.n_cols) return;
  const size_t head = i / t.n_cols;
  const size_t in_head = i % t.n_cols;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    const uint32_t number = t.numbers ? t.numbers[row] : row;
    t.to[row * t.to_stride + head * t.to_step + in_head] =
        t.from[number * t.from_stride + head * t.from_step + in_head];
  }
}

__global__ void add_weighted(AddWeightedTask t) {
  const uint32_t i = column();
  if (i >= t.x.n_cols) return;
  for (uint32_t row = blockIdx.y; row < t.x.n_rows; row += gridDim.y) {
    float* x = row_of(t.x, row);
    float sum = x[i];
    for (size_t term = static_cast<size_t>(row) * t.n; term < (row + size_t{1}) * t.n; ++term) {
      const size_t number = t.rows ? t.rows[term] : term;
      sum = fmaf(t.y[number * t.y_stride + i], t.weights[term], sum);
    }
    x[i] = sum;
  }
}

}  // namespace

const RowKernels kRowKernels = {
    .rms_norm = kernel_of<RmsNormTask, rms_norm>("rms_norm"),
    .add = kernel_of<AddTask, add>("add"),
    .scale = kernel_of<ScaleTask, scale>("scale"),
    .scale_columns = kernel_of<ScaleColumnsTask, scale_columns>("scale_columns"),
    .soft_cap = kernel_of<SoftCapTask, soft_cap>("soft_cap"),
    .clear = kernel_of<ClearTask, clear>("clear"),
    .gated_activation = kernel_of<ActivationTask, gated_activation>("gated_activation"),
    .limited_silu = kernel_of<LimitedSiluTask, limited_silu>("limited_silu"),
    .largest = kernel_of<LargestTask, largest>("largest"),
    .rope = kernel_of<RopeTask, rope>("rope"),
    .copy = kernel_of<CopyTask, copy>("copy"),
    .add_weighted = kernel_of<AddWeightedTask, add_weighted>("add_weighted"),
};

}  // namespace kvik::cuda
