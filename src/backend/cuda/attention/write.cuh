#pragma once

// Writes K and V of a row into its page, changes the basis of heads, and quantizes queries. See
// backend/cpu/attention/attention_write.inl, and quantize_queries() of attention_int8.inl.

#include "backend/cuda/attention/levels.cuh"

namespace kvik::cuda {
namespace {

// Peaks in shared memory: of the groups of K, then of the groups of V; or of the two parts of a
// query.
using SharedScales = Shared<float, 2 * kMaxKeyGroups>;

__device__ void load_head(const float* from, uint32_t n, SharedHead& x) {
  __syncthreads();  // all threads are done with the previous head
  for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) x.set(d, from[d]);
  __syncthreads();
}

// Returns the int4 scale of a group of dimensions, as it is stored in the page.
__device__ __forceinline__ uint16_t int4_scale(float peak) {
  const float step = quantum_for(peak, 127.0f).scale * (127.0f / 8.0f);
  return bf16_of(0.5f * step);
}

__global__ void __launch_bounds__(kAttendThreads) change_basis(BasisTask t) {
  __shared__ SharedHead x;
  const float back = t.rotates_back ? 1.0f / double_rotation_factor(t.head_dim) : 1.0f;
  const size_t first = static_cast<size_t>(blockIdx.x / t.group) * t.head_dim;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    float* head = t.x + row * t.stride + blockIdx.x * t.head_dim;
    load_head(head, t.head_dim, x);
    for (uint32_t d = threadIdx.x; d < t.head_dim; d += blockDim.x) {
      float value = x.get(d);
      if (t.centers) value = value - t.centers[first + d];
      if (t.factors) value = value * t.factors[first + d];
      x.set(d, value * back);
    }
    __syncthreads();
    if (t.rotates) rotate(x, 0, t.head_dim);
    for (uint32_t d = threadIdx.x; d < t.head_dim; d += blockDim.x) head[d] = x.get(d);
  }
}

// Writes the K and V of one token and one KV head into their block of a page. All threads of the
// block must call.
struct Writing {
  const PageLayout& layout;
  uint8_t* block;
  uint32_t token;      // index within the page
  const float *k, *v;  // v is null for latent K
  SharedHead& x;
  SharedScales& peaks;  // of K's groups; from kMaxKeyGroups on, of V's groups

  __device__ void write() const {
    if (layout.type == PageType::kF32 || layout.type == PageType::kBF16) return write_floats();
    if (layout.rotates_keys) {
      write_int4_keys();
    } else if (!layout.keys_by_channel) {
      write_int8_keys();
    }
    if (!v) return;
    if (layout.has_int4_values) {
      write_int4_values();
    } else {
      write_int8_values();
    }
  }

  __device__ uint8_t* values() const { return block + layout.value_offset; }

  __device__ void put_float(uint8_t* at, size_t i, float value) const {
    if (layout.type == PageType::kBF16) {
      reinterpret_cast<uint16_t*>(at)[i] = bf16_of(value);
    } else {
      reinterpret_cast<float*>(at)[i] = value;
    }
  }

  __device__ void write_floats() const {
    for (uint32_t d = threadIdx.x; d < layout.head_dim; d += blockDim.x) {
      const size_t tile = static_cast<size_t>(token / kLanes) * layout.head_dim;
      put_float(block, (tile + d) * kLanes + token % kLanes, k[d]);
    }
    // Writes zeros after the last dimension.
    for (uint32_t d = threadIdx.x; v && d < layout.value_dims; d += blockDim.x) {
      const size_t at = (static_cast<size_t>(d / kLanes) * kPageTokens + token) * kLanes;
      put_float(values(), at + d % kLanes, d < layout.value_dim ? v[d] : 0.0f);
    }
  }

  __device__ void write_int8_keys() const {
    load_head(k, layout.head_dim, x);
    for (uint32_t g = 0; g < layout.n_key_groups; ++g) {
      const uint32_t end = lesser((g + 1) * layout.key_group_dims, layout.head_dim);
      find_peak(x, g * layout.key_group_dims, end, peaks, g);
    }
    __syncthreads();
    uint8_t* keys = block + static_cast<size_t>(token / kLanes) * layout.key_dims * kLanes;
    auto* scales =
        reinterpret_cast<float*>(block + static_cast<size_t>(layout.key_dims) * kPageTokens);
    for (uint32_t d = threadIdx.x; d < layout.key_dims; d += blockDim.x) {
      const uint32_t g = lesser(d / layout.key_group_dims, layout.n_key_groups - 1);
      const QuantScale quantum = quantum_for(peaks.get(g), 127.0f);
      const int level = d < layout.head_dim ? level_of(x.get(d), quantum.inverse) : 0;
      keys[static_cast<size_t>(d / 4) * 64 + token % kLanes * 4 + d % 4] =
          static_cast<uint8_t>(level + 128);
      if (d == g * layout.key_group_dims) scales[g * kPageTokens + token] = quantum.scale;
    }
  }

  __device__ void write_int8_values() const {
    load_head(v, layout.value_dim, x);
    find_peak(x, 0, layout.value_dim, peaks, kMaxKeyGroups);
    __syncthreads();
    const QuantScale quantum = quantum_for(peaks.get(kMaxKeyGroups), 127.0f);
    for (uint32_t d = threadIdx.x; d < layout.value_dims; d += blockDim.x) {
      const int level = d < layout.value_dim ? level_of(x.get(d), quantum.inverse) : 0;
      values()[value_byte(d / kLanes, d % kLanes)] = static_cast<uint8_t>(level);
    }
    auto* scales = reinterpret_cast<float*>(values() + layout.v_bytes) - kPageTokens;
    if (threadIdx.x == 0) scales[token] = quantum.scale;
  }
  // Returns the offset of this token's byte, for dimension d of a block of V.
  __device__ size_t value_byte(uint32_t value_block, uint32_t d) const {
    return static_cast<size_t>(value_block) * kValueBlockBytes + token / 4 * 64 + d * 4 + token % 4;
  }

  __device__ void write_int4_keys() const {
    load_head(k, layout.head_dim, x);
    rotate_key(layout, x);
    find_peaks(0);
    uint8_t* keys = block + static_cast<size_t>(token / kLanes) * (layout.key_dims / 8) * 64;
    for (uint32_t i = threadIdx.x; i < layout.key_dims / 2; i += blockDim.x) {
      const uint32_t d = i / 4 * 8 + i % 4;
      keys[static_cast<size_t>(d / 8) * 64 + token % kLanes * 4 + d % 4] = nibbles_of(0, d, d + 4);
    }
    put_int4_scales(0, block + static_cast<size_t>(layout.key_dims) * kPageTokens / 2);
  }

  __device__ void write_int4_values() const {
    load_head(v, layout.head_dim, x);
    rotate(x, 0, layout.head_dim);
    find_peaks(kMaxKeyGroups);
    for (uint32_t i = threadIdx.x; i < layout.value_dims / 2; i += blockDim.x) {
      const uint32_t d = i / 16 * 32 + i % 16;
      values()[value_byte(d / 32, d % 16)] = nibbles_of(kMaxKeyGroups, d, d + 16);
    }
    put_int4_scales(kMaxKeyGroups,
                    values() + static_cast<size_t>(layout.value_dims) * kPageTokens / 2);
  }

  // Returns the number of dimensions per group of K if first_peak is 0, else of V.
  __device__ uint32_t group_dims(uint32_t first_peak) const {
    return first_peak == 0 ? layout.key_group_dims : layout.value_group_dims;
  }

  // Finds the peaks of all groups and stores them from first_peak on.
  __device__ void find_peaks(uint32_t first_peak) const {
    const uint32_t dims = group_dims(first_peak);
    for (uint32_t g = 0; g * dims < layout.head_dim; ++g) {
      const uint32_t end = lesser((g + 1) * dims, layout.head_dim);
      find_peak(x, g * dims, end, peaks, first_peak + g);
    }
    __syncthreads();
  }

  // Returns the nibble of dimension d of the rotated head. Dimensions after the last one count as
  // zero up to the next multiple of sixteen; after that the nibble is 0.
  __device__ uint32_t nibble_of(uint32_t first_peak, uint32_t d) const {
    const uint32_t n_dims = layout.head_dim;
    if (d >= (n_dims + kLanes - 1) / kLanes * kLanes) return 0;
    const uint32_t g = lesser(d, n_dims - 1) / group_dims(first_peak);
    const float half_step = bf16_value(int4_scale(peaks.get(first_peak + g)));
    const float inverse = half_step > 0.0f ? 0.5f / half_step : 0.0f;
    const float steps = fmaf(d < n_dims ? x.get(d) : 0.0f, inverse, 7.5f);
    return static_cast<uint32_t>(round_to_int(min_of(max_of(steps, 0.0f), 15.0f)));
  }
  __device__ uint8_t nibbles_of(uint32_t first_peak, uint32_t low, uint32_t high) const {
    return static_cast<uint8_t>(nibble_of(first_peak, low) | nibble_of(first_peak, high) << 4);
  }

  __device__ void put_int4_scales(uint32_t first_peak, uint8_t* at) const {
    const uint32_t dims = group_dims(first_peak);
    for (uint32_t g = threadIdx.x; g * dims < layout.head_dim; g += blockDim.x) {
      reinterpret_cast<uint16_t*>(at)[g * kPageTokens + token] =
          int4_scale(peaks.get(first_peak + g));
    }
  }
};

__global__ void __launch_bounds__(kAttendThreads) write_kv(WriteTask t) {
  __shared__ SharedHead x;
  __shared__ SharedScales peaks;
  const PageLayout& layout = t.layout;
  for (uint32_t i = blockIdx.y; i < t.n_rows; i += gridDim.y) {
    const PlacedRow row = t.rows[i];
    const uint32_t token = row.position % kPageTokens;
    const uint8_t* page = t.pages[row.first_page + row.position / kPageTokens];
    uint8_t* block = const_cast<uint8_t*>(page) + t.first_block + blockIdx.x * layout.head_stride;
    const float* k = t.k + row.row * t.k_stride + blockIdx.x * layout.head_dim;
    const float* v = t.v ? t.v + row.row * t.v_stride + blockIdx.x * layout.head_dim : nullptr;
    const Writing head = {layout, block, token, k, v, x, peaks};
    head.write();
  }
}

// Quantizes queries. The two parts of a query for latent K have separate peaks.
__global__ void __launch_bounds__(kAttendThreads) prepare_queries(QueryTask t) {
  __shared__ SharedHead x;
  __shared__ SharedScales peaks;
  const PageLayout& layout = t.layout;
  const bool turns = layout.rotates_keys;
  const uint32_t first_dims = layout.value_dim;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    load_head(t.q + row * t.stride + blockIdx.x * layout.head_dim, layout.head_dim, x);
    float scale = t.scale;
    float ratio = 1.0f;  // factor of the second part
    if (turns) {
      rotate_key(layout, x);
      scale = t.scale / double_rotation_factor(first_dims);
      if (first_dims < layout.head_dim) {
        ratio = double_rotation_factor(first_dims) /
                double_rotation_factor(layout.head_dim - first_dims);
        for (uint32_t d = first_dims + threadIdx.x; d < layout.head_dim; d += blockDim.x) {
          x.set(d, x.get(d) * ratio);
        }
      }
      __syncthreads();
    }
    find_peak(x, 0, first_dims, peaks, 0);
    if (layout.latent_dim != 0) find_peak(x, first_dims, layout.head_dim, peaks, 1);
    __syncthreads();
    const QuantScale first = quantum_for(peaks.get(0), 127.0f);
    const QuantScale second = layout.latent_dim != 0 ? quantum_for(peaks.get(1), 127.0f) : first;
    const size_t query = static_cast<size_t>(row) * t.n_heads + blockIdx.x;
    for (uint32_t d = threadIdx.x; d < layout.key_dims; d += blockDim.x) {
      const float inverse = d < first_dims ? first.inverse : second.inverse;
      const int level = d < layout.head_dim ? level_of(x.get(d), inverse) : 0;
      t.out.levels[query * layout.key_dims + d] = static_cast<int8_t>(level);
    }
    // The query's scale is that of its first part, unless that is zero.
    const bool has_first = first.scale > 0.0f || layout.latent_dim == 0;
    const float most = has_first ? first.scale : second.scale;
    if (threadIdx.x == 0) t.out.scales[query] = most * scale;
    if (threadIdx.x < layout.n_key_groups) {
      const bool is_second = threadIdx.x >= layout.n_value_groups;
      t.out.group_scales[query * kMaxKeyGroups + threadIdx.x] =
          is_second && has_first ? second.scale / most : 1.0f;
    }
  }
}

}  // namespace
}  // namespace kvik::cuda
