#pragma once

// K in int4 by channel, from its open page: backend/cpu/attention/attention_channels.inl.

#include "backend/cuda/attention/levels.cuh"

namespace kvik::cuda {
namespace {

// The values that a channel has in a page, in [low, high].
struct ChannelRange {
  float low, high;
};

// A value has the nibble (x · inverse − first_level) · nibbles_per_level, rounded.
struct ChannelQuantum {
  uint8_t first, step;  // as the page has them
  float first_level, nibbles_per_level;
};

__device__ __forceinline__ float limited_level(float level) {
  return level < -127.0f ? -127.0f : level > 127.0f ? 127.0f : level;
}

__device__ __forceinline__ ChannelQuantum quantum_of_channel(ChannelRange range, float inverse) {
  const float low = rintf(limited_level(range.low * inverse) - 0.5f);
  const float first_level = low < -127.0f ? -127.0f : low;
  const auto first = static_cast<uint32_t>(first_level + 128.0f);
  const float span = limited_level(range.high * inverse) - first_level;
  const float steps = span * (256.0f / 255.0f) + 0.5f;
  const auto step = static_cast<uint32_t>(rintf(steps));
  const uint32_t most = (65535 - 128 - 256 * first) / 255;
  const uint32_t limited = lesser(step, lesser(most, 255));
  return {static_cast<uint8_t>(first), static_cast<uint8_t>(limited), first_level,
          limited == 0 ? 0.0f : 256.0f / (17.0f * static_cast<float>(limited))};
}

// One head of a page. The whole block calls.
struct ChannelWriting {
  const PageLayout& layout;
  const uint16_t* keys;  // of the open page
  uint8_t* block;
  SharedHead &lows, &highs;
  Shared<float, kMostKeyGroups>& peaks;

  __device__ float key(uint32_t token, uint32_t d) const {
    const size_t tile = static_cast<size_t>(token / kLanes) * layout.head_dim;
    return bf16_value(keys[(tile + d) * kLanes + token % kLanes]);
  }

  // A NaN is not counted.
  __device__ void find_ranges() const {
    for (uint32_t d = threadIdx.x; d < layout.head_dim; d += blockDim.x) {
      float high = -3.402823466e38f;
      float minus_low = high;
      for (uint32_t token = 0; token < kPageTokens; ++token) {
        const float x = key(token, d);
        high = max_of(x, high);
        minus_low = max_of(x * -1.0f, minus_low);
      }
      const bool is_known = -minus_low <= high;
      lows.set(d, is_known ? -minus_low : 0.0f);
      highs.set(d, is_known ? high : 0.0f);
    }
    __syncthreads();
    for (uint32_t g = threadIdx.x; g < layout.n_key_groups; g += blockDim.x) {
      float peak = 0.0f;
      const uint32_t end = lesser((g + 1) * layout.key_group_dims, layout.head_dim);
      for (uint32_t d = g * layout.key_group_dims; d < end; ++d) {
        peak = max_of(max_of(highs.get(d), -lows.get(d)), peak);
      }
      peaks.set(g, peak);
    }
    __syncthreads();
  }

  __device__ Quantum quantum(uint32_t d) const {
    return quantum_for(peaks.get(d / layout.key_group_dims), 127.0f);
  }
  __device__ ChannelQuantum channel(uint32_t d) const {
    return quantum_of_channel({lows.get(d), highs.get(d)}, quantum(d).inverse);
  }

  __device__ uint32_t nibble(uint32_t token, uint32_t d) const {
    if (d >= layout.head_dim) return 0;
    const ChannelQuantum of = channel(d);
    const float level = key(token, d) * quantum(d).inverse;
    const float steps = (level - of.first_level) * of.nibbles_per_level;
    return static_cast<uint32_t>(round_to_int(min_of(max_of(steps, 0.0f), 15.0f)));
  }

  __device__ void write() const {
    find_ranges();
    const uint32_t n_bytes = layout.key_dims * kPageTokens / 2;
    for (uint32_t i = threadIdx.x; i < n_bytes; i += blockDim.x) {
      const uint32_t vector = i / 64;
      const uint32_t n_vectors = layout.key_dims / 8;
      const uint32_t token = vector / n_vectors * kLanes + i % 64 / 4;
      const uint32_t d = vector % n_vectors * 8 + i % 4;
      block[i] = static_cast<uint8_t>(nibble(token, d) | nibble(token, d + 4) << 4);
    }
    uint8_t* firsts = block + n_bytes;
    for (uint32_t d = threadIdx.x; d < layout.key_dims; d += blockDim.x) {
      const bool is_there = d < layout.head_dim;
      const ChannelQuantum of = is_there ? channel(d) : ChannelQuantum{0, 0, 0.0f, 0.0f};
      firsts[d] = of.first;
      firsts[layout.key_dims + d] = of.step;
    }
    auto* scales = reinterpret_cast<float*>(firsts + 2 * layout.key_dims);
    for (uint32_t g = threadIdx.x; g < kLanes; g += blockDim.x) {
      scales[g] = g < layout.n_key_groups ? quantum_for(peaks.get(g), 127.0f).scale : 0.0f;
    }
  }
};

__global__ void __launch_bounds__(kAttendThreads) write_channels(ChannelTask t) {
  __shared__ SharedHead lows, highs;
  __shared__ Shared<float, kMostKeyGroups> peaks;
  for (uint32_t i = blockIdx.y; i < t.n_pages; i += gridDim.y) {
    __syncthreads();  // the previous page is done
    const uint8_t* open = t.open_pages[i] + t.first_open_block + blockIdx.x * t.open_head_bytes;
    uint8_t* block =
        const_cast<uint8_t*>(t.pages[i]) + t.first_block + blockIdx.x * t.layout.head_bytes;
    const ChannelWriting page = {
        t.layout, reinterpret_cast<const uint16_t*>(open), block, lows, highs, peaks};
    page.write();
  }
}

}  // namespace
}  // namespace kvik::cuda
