#pragma once

// Writes int4 K by channel from an open page. See backend/cpu/attention/attention_channels.inl.

#include "backend/cuda/attention/levels.cuh"

namespace kvik::cuda {
namespace {

// Range [low, high] of a channel's values in a tile.
struct ChannelRange {
  float low, high;
};

// Levels that the nibbles of a channel represent. The nibble of a level is (level − first_level) ·
// nibbles_per_level, rounded.
struct ChannelQuantScale {
  uint8_t first, step;  // as stored in the page
  float first_level, levels_per_nibble, nibbles_per_level;
};

__device__ __forceinline__ float clamped_level(float level) {
  return level < -127.0f ? -127.0f : level > 127.0f ? 127.0f : level;
}

__device__ __forceinline__ ChannelQuantScale quantum_of_bytes(uint32_t first, uint32_t step) {
  const float levels_per_nibble = 17.0f / 256.0f * static_cast<float>(step);
  return {static_cast<uint8_t>(first), static_cast<uint8_t>(step),
          static_cast<float>(first) - 128.0f, levels_per_nibble,
          step == 0 ? 0.0f : 1.0f / levels_per_nibble};
}

__device__ __forceinline__ ChannelQuantScale quantum_of_range(ChannelRange levels) {
  const float low = rintf(clamped_level(levels.low) - 0.5f);
  const float first_level = low < -127.0f ? -127.0f : low;
  const auto first = static_cast<uint32_t>(first_level + 128.0f);
  const float span = clamped_level(levels.high) - first_level;
  const float steps = span * (256.0f / 255.0f) + 0.5f;
  const auto step = static_cast<uint32_t>(rintf(steps));
  const uint32_t most = (65535 - 128 - 256 * first) / 255;
  return quantum_of_bytes(first, lesser(step, lesser(most, 255)));
}

__device__ __forceinline__ uint32_t nibble_of(float level, const ChannelQuantScale& channel) {
  const float nibble = (level - channel.first_level) * channel.nibbles_per_level;
  return static_cast<uint32_t>(round_to_int(min_of(max_of(nibble, 0.0f), 15.0f)));
}

// Returns the sum of the squared rounding errors of a tile's levels.
__device__ __forceinline__ float squared_error(const float (&levels)[kChannelTokens],
                                               const ChannelQuantScale& channel) {
  float squares[kChannelTokens];
  for (uint32_t i = 0; i < kChannelTokens; ++i) {
    const auto nibble = static_cast<float>(nibble_of(levels[i], channel));
    const float above = nibble * channel.levels_per_nibble + 1.0f / 512.0f;
    const float error = levels[i] - (rintf(above) + channel.first_level);
    squares[i] = error * error;
  }
  for (uint32_t half = kChannelTokens / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) squares[i] = squares[i] + squares[i + half];
  }
  return squares[0];
}

// Returns the quantum with the least error among nine: see attention_channels.inl.
__device__ __forceinline__ ChannelQuantScale
quantum_of_channel(const float (&levels)[kChannelTokens], ChannelRange range) {
  const float shifts[] = {0.0f, 0.02f, -0.02f};
  const float span = range.high - range.low;
  ChannelQuantScale best = quantum_of_range(range);
  float least = squared_error(levels, best);
  for (const float low : shifts) {
    for (const float high : shifts) {
      const ChannelQuantScale channel =
          quantum_of_range({range.low + low * span, range.high + high * span});
      const float error = squared_error(levels, channel);
      if (error < least) {
        best = channel;
        least = error;
      }
    }
  }
  return best;
}

// A tile is a number of consecutive tokens for which each channel has one zero point and one step.
constexpr uint32_t kTiles = kPageTokens / kChannelTokens;
static_assert(kChannelTokens == kLanes);
using SharedTiles = Shared<float, kTiles * kMaxHeadDim>;

// Writes the K of one head of a page. All threads of the block must call.
struct ChannelWriting {
  const PageLayout& layout;
  const uint16_t* keys;  // K in the open page
  uint8_t* block;
  SharedTiles &lows, &highs;  // [tile][dimension]
  // Maximum magnitude in each group of dimensions.
  Shared<float, kMaxKeyGroups>& peaks;

  __device__ float key(uint32_t token, uint32_t d) const {
    const size_t tile = static_cast<size_t>(token / kLanes) * layout.head_dim;
    return bf16_value(keys[(tile + d) * kLanes + token % kLanes]);
  }

  // Finds the range of each channel in each tile, and the peak of each group of dimensions. Ignores
  // NaN.
  __device__ void find_ranges() const {
    for (uint32_t i = threadIdx.x; i < kTiles * layout.head_dim; i += blockDim.x) {
      const uint32_t first_token = i / layout.head_dim * kChannelTokens;
      float high = -3.402823466e38f;
      float minus_low = high;
      for (uint32_t token = 0; token < kChannelTokens; ++token) {
        const float x = key(first_token + token, i % layout.head_dim);
        high = max_of(x, high);
        minus_low = max_of(x * -1.0f, minus_low);
      }
      const bool is_known = -minus_low <= high;
      lows.set(i, is_known ? -minus_low : 0.0f);
      highs.set(i, is_known ? high : 0.0f);
    }
    __syncthreads();
    for (uint32_t g = threadIdx.x; g < layout.n_key_groups; g += blockDim.x) {
      float peak = 0.0f;
      const uint32_t end = lesser((g + 1) * layout.key_group_dims, layout.head_dim);
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        for (uint32_t d = g * layout.key_group_dims; d < end; ++d) {
          const uint32_t i = tile * layout.head_dim + d;
          peak = max_of(max_of(highs.get(i), -lows.get(i)), peak);
        }
      }
      peaks.set(g, peak);
    }
    __syncthreads();
  }

  // Returns the quantum of int8 levels in the group of dimension d.
  __device__ QuantScale quantum(uint32_t d) const {
    return quantum_for(peaks.get(d / layout.key_group_dims), 127.0f);
  }
  // Returns the levels of nibble 0 of a tile's channels. The steps of the channels follow them.
  __device__ uint8_t* firsts(uint32_t tile) const {
    return block + static_cast<size_t>(layout.key_dims) * (kPageTokens / 2 + 2 * tile);
  }
  __device__ ChannelQuantScale find_channel(uint32_t tile, uint32_t d) const {
    float levels[kChannelTokens];
    const float inverse = quantum(d).inverse;
    for (uint32_t token = 0; token < kChannelTokens; ++token) {
      levels[token] = key(tile * kChannelTokens + token, d) * inverse;
    }
    const uint32_t i = tile * layout.head_dim + d;
    return quantum_of_channel(
        levels, {clamped_level(lows.get(i) * inverse), clamped_level(highs.get(i) * inverse)});
  }
  __device__ void write_quanta() const {
    for (uint32_t i = threadIdx.x; i < kTiles * layout.key_dims; i += blockDim.x) {
      const uint32_t tile = i / layout.key_dims;
      const uint32_t d = i % layout.key_dims;
      const bool is_there = d < layout.head_dim;
      const ChannelQuantScale channel = is_there ? find_channel(tile, d) : quantum_of_bytes(0, 0);
      firsts(tile)[d] = channel.first;
      firsts(tile)[layout.key_dims + d] = channel.step;
    }
    __syncthreads();
  }

  __device__ uint32_t nibble(uint32_t token, uint32_t d) const {
    if (d >= layout.head_dim) return 0;
    const uint8_t* first = firsts(token / kChannelTokens) + d;
    return nibble_of(key(token, d) * quantum(d).inverse,
                     quantum_of_bytes(first[0], first[layout.key_dims]));
  }

  __device__ void write() const {
    find_ranges();
    write_quanta();
    const uint32_t n_bytes = layout.key_dims * kPageTokens / 2;
    for (uint32_t i = threadIdx.x; i < n_bytes; i += blockDim.x) {
      const uint32_t vector = i / 64;
      const uint32_t n_vectors = layout.key_dims / 8;
      const uint32_t token = vector / n_vectors * kLanes + i % 64 / 4;
      const uint32_t d = vector % n_vectors * 8 + i % 4;
      block[i] = static_cast<uint8_t>(nibble(token, d) | nibble(token, d + 4) << 4);
    }
    auto* scales = reinterpret_cast<float*>(firsts(kTiles));
    for (uint32_t g = threadIdx.x; g < kLanes; g += blockDim.x) {
      scales[g] = g < layout.n_key_groups ? quantum_for(peaks.get(g), 127.0f).scale : 0.0f;
    }
  }
};

__global__ void __launch_bounds__(kAttendThreads) write_channels(ChannelTask t) {
  __shared__ SharedTiles lows, highs;
  __shared__ Shared<float, kMaxKeyGroups> peaks;
  for (uint32_t i = blockIdx.y; i < t.n_pages; i += gridDim.y) {
    __syncthreads();  // the previous page is done
    const uint8_t* open = t.open_pages[i] + t.first_open_block + blockIdx.x * t.open_head_stride;
    uint8_t* block =
        const_cast<uint8_t*>(t.pages[i]) + t.first_block + blockIdx.x * t.layout.head_stride;
    const ChannelWriting page = {
        t.layout, reinterpret_cast<const uint16_t*>(open), block, lows, highs, peaks};
    page.write();
  }
}

}  // namespace
}  // namespace kvik::cuda
