#pragma once

// Merges the partial results of each pair in ascending order, ending with its open page and its
// attention sink, and writes its output. The same as merge_block_split() and write_out() of
// backend/cpu/attention/attention.inl and merge_open_pages() of attention_open.inl.

#include "backend/cuda/attention/levels.cuh"

namespace kvik::cuda {
namespace {

// Factor for a pair's sums, and its new total, after an attention sink has joined the softmax.
struct WithSink {
  float share, total;
};
__device__ __forceinline__ WithSink add_sink(float sink, float top, float total) {
  const float most = sink > top ? sink : top;
  const float share = exp_of(top - most);
  return {share, total * share + exp_of(sink - most)};
}

// Rotates the sums of rotated V back.
__device__ void rotate_sums_back(SharedHead& head, uint32_t value_dim) {
  __syncthreads();
  rotate(head, 0, value_dim);
  const float back = 1.0f / double_rotation_factor(value_dim);
  for (uint32_t d = threadIdx.x; d < value_dim; d += kAttendThreads) {
    head.set(d, head.get(d) * back);
  }
}

__global__ void __launch_bounds__(kAttendThreads) merge(MergeTask t) {
  __shared__ SharedHead head;
  const uint32_t value_dim = t.layout.value_dim;
  const bool turns = t.layout.has_int4_values;
  for (uint32_t i = blockIdx.y; i < t.n_rows; i += gridDim.y) {
    const MergeRow row = t.rows[i];
    const auto part = [&](uint32_t p) {
      const size_t at = static_cast<size_t>(t.parts[row.first_part + p]) * t.n_heads + blockIdx.x;
      return t.partials + at * (value_dim + 2);
    };
    float top = part(0)[value_dim];
    float total = part(0)[value_dim + 1];
    __syncthreads();  // all threads have read the previous row
    for (uint32_t d = threadIdx.x; d < value_dim; d += kAttendThreads) head.set(d, part(0)[d]);
    for (uint32_t p = 1; p < row.n_parts; ++p) {
      if (turns && t.ends_with_open_page && p + 1 == row.n_parts) rotate_sums_back(head, value_dim);
      const float* from = part(p);
      const float both = max_of(top, from[value_dim]);
      const float a = exp_of(top - both);
      const float b = exp_of(from[value_dim] - both);
      total = fmaf(total, a, from[value_dim + 1] * b);
      top = both;
      for (uint32_t d = threadIdx.x; d < value_dim; d += kAttendThreads) {
        head.set(d, fmaf(head.get(d), a, from[d] * b));
      }
    }
    float share = 1.0f;
    if (t.sinks) {
      const WithSink with_sink = add_sink(t.sinks[blockIdx.x], top, total);
      total = with_sink.total;
      share = with_sink.share;
    }
    if (turns && !t.ends_with_open_page) {  // rotates V back
      __syncthreads();
      rotate(head, 0, value_dim);
      total = total * double_rotation_factor(value_dim);
    }
    float* out = t.out + row.row * t.out_stride + blockIdx.x * value_dim;
    for (uint32_t d = threadIdx.x; d < value_dim; d += kAttendThreads) {
      const float sum = head.get(d);
      out[d] = (share == 1.0f ? sum : sum * share) / total;
    }
  }
}

}  // namespace
}  // namespace kvik::cuda
