#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/kernel/words.cuh"
#include "backend/cuda/route/route_kernels.h"
#include "backend/exact_math.h"

namespace kvik::cuda {
namespace {

using Doubles = Shared<double, kMaxExperts>;

__device__ __forceinline__ double minus_infinity() {
  return static_cast<double>(__int_as_float(static_cast<int>(0xff800000u)));
}

// Returns the sum of n terms in a fixed order. Every lane computes it.
__device__ double sum_of(Doubles& terms, uint32_t n) {
  double sum = 0.0;
  for (uint32_t i = 0; i < n; ++i) sum += terms.get(i);
  return sum;
}

// Computes the softmax of the scores as ranks.
__device__ void rank_by_softmax(const ChooseTask& t, const float* scores, Doubles& ranks) {
  double highest = scores[0];
  for (uint32_t expert = 1; expert < t.n_experts; ++expert) {
    if (highest < scores[expert]) highest = scores[expert];
  }
  for (uint32_t expert = threadIdx.x; expert < t.n_experts; expert += 32) {
    ranks.set(expert, exact_exp(scores[expert] - highest));
  }
  __syncwarp();
  const double sum = sum_of(ranks, t.n_experts);
  __syncwarp();
  for (uint32_t expert = threadIdx.x; expert < t.n_experts; expert += 32) {
    ranks.set(expert, ranks.get(expert) / sum);
  }
}

// Computes the rank of each expert: the number by which experts are selected. A lane computes the
// same experts in all loops.
__device__ void rank(const ChooseTask& t, const float* scores, Doubles& ranks) {
  const bool needs_sigmoid = t.is_sigmoid && (t.correction_bias || t.n_groups > 1);
  if (!t.is_sigmoid && t.correction_bias) {
    rank_by_softmax(t, scores, ranks);
  } else {
    for (uint32_t expert = threadIdx.x; expert < t.n_experts; expert += 32) {
      const double score = scores[expert];
      ranks.set(expert, needs_sigmoid ? exact_sigmoid(score) : score);
    }
  }
  for (uint32_t expert = threadIdx.x; expert < t.n_experts && t.correction_bias; expert += 32) {
    ranks.set(expert, ranks.get(expert) + static_cast<double>(t.correction_bias[expert]));
  }
  __syncwarp();
}

// Returns the value by which a group is ranked: the best rank of its experts or, with sigmoid
// scores, the sum of its two best ranks.
__device__ double value_of_group(const ChooseTask& t, uint32_t group, Doubles& ranks) {
  const uint32_t size = t.n_experts / t.n_groups;
  const uint32_t first = group * size;
  uint32_t best = first;
  for (uint32_t expert = first + 1; expert < first + size; ++expert) {
    if (ranks.get(best) < ranks.get(expert)) best = expert;
  }
  if (!t.is_sigmoid || size == 1) return ranks.get(best);
  double second = minus_infinity();
  for (uint32_t expert = first; expert < first + size; ++expert) {
    if (expert != best && second < ranks.get(expert)) second = ranks.get(expert);
  }
  return ranks.get(best) + second;
}

// Gives all experts outside the best groups the lowest rank.
__device__ void mask_other_groups(const ChooseTask& t, Doubles& ranks, Doubles& values) {
  for (uint32_t group = threadIdx.x; group < t.n_groups; group += 32) {
    values.set(group, value_of_group(t, group, ranks));
  }
  __syncwarp();
  const uint32_t size = t.n_experts / t.n_groups;
  for (uint32_t group = threadIdx.x; group < t.n_groups; group += 32) {
    const double own = values.get(group);
    uint32_t n_better = 0;
    for (uint32_t other = 0; other < t.n_groups; ++other) {
      const double value = values.get(other);
      const bool is_better = other < group ? !(own > value) : value > own;
      n_better += other != group && is_better;
    }
    if (n_better < t.n_groups_used) continue;
    for (uint32_t i = 0; i < size; ++i) ranks.set(group * size + i, minus_infinity());
  }
  __syncwarp();
}

// Selects experts by the same insertion sort as on the host, expert by expert. Each lane has one
// place of the sorted list, and the function returns the expert at the lane's place. Up to 32
// experts that do not enter the list are skipped at once.
__device__ uint32_t best_expert(const ChooseTask& t, Doubles& ranks) {
  const uint32_t lane = threadIdx.x;
  uint32_t n = 0;       // number of places that are taken
  uint32_t expert = 0;  // expert at the lane's place
  double worst = 0.0;   // rank of the expert at the last of n_used places
  for (uint32_t begin = 0; begin < t.n_experts; begin += 32) {
    const bool is_there = begin + lane < t.n_experts;
    const double own = is_there ? ranks.get(begin + lane) : 0.0;
    uint32_t passed = 0;  // bits up to the last expert that was inserted
    while (true) {
      const bool enters = is_there && (n < t.n_used || own > worst);
      const uint32_t next = __ballot_sync(kAllLanes, enters) & ~passed;
      if (next == 0) break;
      const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(next)) - 1);
      passed = 0xffffffffu >> (31 - bit);
      // The expert is inserted after the last one that it does not outrank. A NaN does not outrank
      // others and is not outranked.
      const bool stays = lane < n && !(ranks.get(begin + bit) > ranks.get(expert));
      const uint32_t before = __ballot_sync(kAllLanes, stays);
      const uint32_t at = 32 - static_cast<uint32_t>(__clz(static_cast<int>(before)));
      const uint32_t of_lane_before = __shfl_sync(kAllLanes, expert, (lane + 31) % 32);
      if (lane > at) expert = of_lane_before;
      if (lane == at) expert = begin + bit;
      n = lesser(n + 1, t.n_used);
      worst = ranks.get(__shfl_sync(kAllLanes, expert, t.n_used - 1));
    }
  }
  return expert;
}

// Computes probabilities from scores. With softmax they are relative to the highest selected score.
struct Probability {
  bool is_sigmoid;
  double highest;  // of the selected scores

  __device__ double of(float score) const {
    return is_sigmoid ? exact_sigmoid(score) : exact_exp(score - highest);
  }
};

// Returns the weight of the expert at the lane's place.
__device__ float weight_of(const ChooseTask& t, const float* scores, uint32_t expert,
                           Doubles& terms) {
  const uint32_t lane = threadIdx.x;
  const float score = scores[expert];
  double highest = __shfl_sync(kAllLanes, score, 0);
  for (uint32_t i = 1; i < t.n_used; ++i) {
    const double other = __shfl_sync(kAllLanes, score, i);
    if (highest < other) highest = other;
  }
  const Probability probability = {t.is_sigmoid, highest};
  const double own = probability.of(score);
  double sum = 1.0;
  if (t.normalizes) {
    terms.set(lane, own);
    __syncwarp();
    sum = sum_of(terms, t.n_used);
  } else if (!t.is_sigmoid) {
    for (uint32_t i = lane; i < t.n_experts; i += 32) terms.set(i, probability.of(scores[i]));
    __syncwarp();
    sum = sum_of(terms, t.n_experts);
  }
  const auto weight = static_cast<float>(own / sum * static_cast<double>(t.weight_scale));
  return t.factors ? weight * t.factors[expert] : weight;
}

__global__ void choose(ChooseTask t) {
  __shared__ Doubles ranks;
  __shared__ Doubles values;  // values of groups, then terms of sums
  const uint32_t lane = threadIdx.x;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    const float* scores = t.scores + row * t.stride;
    rank(t, scores, ranks);
    if (t.n_groups_used < t.n_groups) mask_other_groups(t, ranks, values);
    const uint32_t expert = best_expert(t, ranks);
    const float weight = weight_of(t, scores, expert, values);
    if (lane < t.n_used) {
      t.chosen[static_cast<size_t>(row) * t.n_used + lane] = expert;
      t.weights[static_cast<size_t>(row) * t.n_used + lane] = weight;
    }
    if (lane == 0) {
      const double share = t.has_shared_gate ? exact_sigmoid(scores[t.n_experts]) : 1.0;
      t.shared_weights[row] = static_cast<float>(share);
    }
    __syncwarp();
  }
}

// Writes those entries of the tile lists that belong to row `row` of the product, which is one of
// the expert's rows [first, first + n). If there are fewer rows than experts, the row has an entry
// for the tile that begins with the expert's first row. If the row is the first of a piece of
// tile_rows rows, it also has the piece's entry, for a tile that begins inside the expert's rows;
// at most one such tile begins in a piece.
__device__ void put_tiles(const GroupTask& t, uint32_t expert, uint32_t first, uint32_t n,
                          uint32_t row) {
  const bool are_rows_fewer = t.n_choices < t.n_experts;
  const uint32_t n_begins = are_rows_fewer ? t.n_choices : t.n_experts;
#pragma unroll
  for (const TileList& list : t.tile_lists) {
    const uint32_t size = list.tile_rows;
    if (are_rows_fewer) list.tiles[row] = {expert, row, row == first ? lesser(size, n) : 0};
    if (row % size != 0) continue;
    // Rows of the expert before the piece's tile.
    const uint32_t before = (row - first + size - 1) / size * size;
    const bool is_tile = before > 0 && before < n;
    list.tiles[n_begins + row / size] = {expert, first + before,
                                         is_tile ? lesser(size, n - before) : 0};
  }
}

// Sorts the choices by expert, with a warp per expert. Each warp scans all choices: the rows of its
// expert come after the choices of experts with lower numbers.
__global__ void group(GroupTask t) {
  const uint32_t lane = threadIdx.x;
  const uint32_t expert = blockIdx.y;
  uint32_t first = 0, n = 0;
  for (uint32_t choice = lane; choice < t.n_choices; choice += 32) {
    first += t.chosen[choice] < expert;
    n += t.chosen[choice] == expert;
  }
  for (uint32_t half = 16; half > 0; half /= 2) {
    first += __shfl_xor_sync(kAllLanes, first, half);
    n += __shfl_xor_sync(kAllLanes, n, half);
  }
  uint32_t next = first;
  for (uint32_t begin = 0; begin < t.n_choices; begin += 32) {
    const uint32_t choice = begin + lane;
    const bool is_own = choice < t.n_choices && t.chosen[choice] == expert;
    const uint32_t own = __ballot_sync(kAllLanes, is_own);
    if (is_own) {
      const uint32_t place =
          next + static_cast<uint32_t>(__popc(own & ((uint32_t{1} << lane) - 1)));
      t.places[choice] = place;
      t.order[place] = choice / t.n_used;
      t.experts[place] = expert;
      put_tiles(t, expert, first, n, place);
    }
    next += static_cast<uint32_t>(__popc(own));
  }
  if (lane > 0 || t.n_choices < t.n_experts) return;
#pragma unroll
  for (const TileList& list : t.tile_lists) {
    list.tiles[expert] = {expert, first, lesser(list.tile_rows, n)};
  }
}

}  // namespace

const RouteKernels kRouteKernels = {
    .choose = kernel_of<ChooseTask, choose>("choose"),
    .group = kernel_of<GroupTask, group>("group"),
};

}  // namespace kvik::cuda
