#pragma once

// The attention kernel. A thread block computes attention for kPairs pairs of a row and a query
// head at a time, split by split: scores with one thread per token, weights with sixteen threads
// per pair, and sums with one thread per dimension of V.

#include "backend/cuda/attention/pages.cuh"

namespace kvik::cuda {
namespace {

// The tokens [begin, end).
struct Span {
  uint32_t begin, end;
  __device__ bool empty() const { return begin >= end; }
  __device__ bool has(uint32_t t) const { return t >= begin && t < end; }
};
__device__ __forceinline__ Span common(Span a, Span b) {
  return {greater(a.begin, b.begin), lesser(a.end, b.end)};
}

// Tokens of a split whose scores one thread computes.
constexpr uint32_t kTokensOfThread = kSplitTokens / kAttendThreads;
// Dimensions of the queries, or words of four levels, that are in shared memory at a time.
constexpr uint32_t kQueryPiece = 64;
// Numbers of levels of weights: see steps_of_weights() of attention_int8_weights.inl.
constexpr float kFewSteps = 255.0f, kManySteps = 32767.0f, kMeanLevel = 64.0f;
constexpr float kHugeScore = 0x1p20f;  // see attention_int8_weights.inl

// Shared memory of a thread block, for all splits of the current pairs.
struct AttendShared {
  Shared<float, kSplitTokens * kPairs> scores;    // [token][pair]; replaced by weights
  Shared<int16_t, kSplitTokens * kPairs> levels;  // levels of weights: [token / 4][pair][token % 4]
  Shared<float, kQueryPiece * kPairs> queries;    // [dimension][pair]
  Shared<uint32_t, kQueryPiece * kPairs> words;   // [word][pair]
  Shared<float, kPairs> steps;                    // by pair, the step between levels of weights
  Shared<float, kPairs> old_factors, new_factors;  // by pair, the factors that merge a split's sums
};

// One thread's view of the kPairs pairs that its block computes.
template <class Pages>
struct Attending {
  const AttendTask& t;
  const AttendItem item;
  AttendShared& shared;
  const uint32_t first_pair, n_pairs;
  Span split = {0, 0};  // tokens of the current split
  Span pages = {0, 0};  // tokens of the split's pages that some pair attends to
  // Maximum score and total weight so far of the pair whose weights this thread computes.
  float top = 0, total = 0;

  __device__ const PageLayout& layout() const { return t.layout; }
  __device__ PlacedRow row(uint32_t pair) const {
    return t.rows[item.first_row + (first_pair + pair) / t.group];
  }
  __device__ uint32_t head(uint32_t pair) const {
    return blockIdx.y * t.group + (first_pair + pair) % t.group;
  }
  // Returns the tokens of `t.pages` that a pair's row attends to. An empty range is such that it
  // does not extend the union with the ranges of other rows.
  __device__ Span visible(uint32_t pair) const {
    const uint32_t position = row(pair).position;
    const uint32_t begin = t.window != 0 && position + 1 > t.window ? position + 1 - t.window : 0;
    const uint32_t end =
        t.ends_before_own_page ? position / kPageTokens * kPageTokens : position + 1;
    if (begin >= end) return {UINT32_MAX, 0};
    return {begin, end};
  }
  // Returns the tokens of the current split that a pair's row attends to.
  __device__ Span seen(uint32_t pair) const { return common(visible(pair), split); }
  // Returns where the partial results of a pair are written.
  __device__ float* partial(uint32_t pair) const {
    const size_t of_row = item.first_row + (first_pair + pair) / t.group;
    return t.partials + (of_row * t.n_heads + head(pair)) * (layout().value_dim + 2);
  }
  // Returns this KV head's block in the page of a token.
  __device__ const uint8_t* block_of(uint32_t token) const {
    return t.pages[item.first_page + token / kPageTokens] + t.first_block +
           blockIdx.y * layout().head_stride;
  }

  // Returns those of the item's splits that some pair attends to.
  __device__ Span splits() const {
    Span any = visible(0);
    for (uint32_t p = 1; p < n_pairs; ++p) {
      const Span own = visible(p);
      any = {lesser(any.begin, own.begin), greater(any.end, own.end)};
    }
    return common({any.begin / kSplitTokens, (any.end + kSplitTokens - 1) / kSplitTokens},
                  {item.first_split, item.first_split + item.n_splits});
  }

  // Sets the split and the range of its pages that some pair attends to.
  __device__ void begin_split(uint32_t number) {
    split = {number * kSplitTokens, (number + 1) * kSplitTokens};
    Span any = {split.end, split.begin};
    for (uint32_t p = 0; p < n_pairs; ++p) {
      const Span own = seen(p);
      if (own.empty()) continue;
      any = {lesser(any.begin, own.begin), greater(any.end, own.end)};
    }
    pages = {any.begin / kPageTokens * kPageTokens,
             (any.end + kPageTokens - 1) / kPageTokens * kPageTokens};
  }

  __device__ void attend_split(uint32_t number) {
    begin_split(number);
    if (pages.empty()) return;
    if constexpr (Pages::kHasLevels) {
      score_levels();
      __syncthreads();
      weigh_levels();
    } else {
      score_floats();
      __syncthreads();
      weigh_floats();
    }
    __syncthreads();  // the next split overwrites scores
  }

  // --- scores ---

  // Returns the i-th token of the split whose scores this thread computes.
  __device__ uint32_t token_of(uint32_t i) const {
    return split.begin + i * kAttendThreads + threadIdx.x;
  }
  __device__ void put_scores(uint32_t i, const float (&scores)[kPairs]) {
    for (uint32_t p = 0; p < kPairs; p += 4) {
      const Floats4 four = {{scores[p], scores[p + 1], scores[p + 2], scores[p + 3]}};
      shared.scores.template set_as<Floats4>((token_of(i) - split.begin) * kPairs + p, four);
    }
  }

  // Loads n dimensions of the queries, starting at `begin`. Queries of pairs that do not exist are
  // zero.
  __device__ void load_queries(uint32_t begin, uint32_t n) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n * kPairs; i += kAttendThreads) {
      const uint32_t p = i % kPairs;
      float q = 0.0f;
      if (p < n_pairs) {
        q = t.q[row(p).row * t.q_stride + head(p) * layout().head_dim + begin + i / kPairs];
      }
      shared.queries.set(i, q);
    }
    __syncthreads();
  }

  __device__ void score_floats() {
    const uint32_t head_dim = layout().head_dim;
    float sums[kTokensOfThread][kPairs] = {};
    const uint8_t* blocks[kTokensOfThread];
    for (uint32_t i = 0; i < kTokensOfThread; ++i) {
      blocks[i] = pages.has(token_of(i)) ? block_of(token_of(i)) : nullptr;
    }
    for (uint32_t begin = 0; begin < head_dim; begin += kQueryPiece) {
      const uint32_t n = lesser(kQueryPiece, head_dim - begin);
      load_queries(begin, n);
      for (uint32_t d = 0; d < n; ++d) {
        float q[kPairs];
        for (uint32_t p = 0; p < kPairs; p += 4) {
          const auto four = shared.queries.template get_as<Floats4>(d * kPairs + p);
          for (uint32_t j = 0; j < 4; ++j) q[p + j] = four.value[j];
        }
#pragma unroll
        for (uint32_t i = 0; i < kTokensOfThread; ++i) {
          if (!blocks[i]) continue;
          const float k = Pages::key(layout(), blocks[i], token_of(i) % kPageTokens, begin + d);
#pragma unroll
          for (uint32_t p = 0; p < kPairs; ++p) sums[i][p] = fmaf(q[p], k, sums[i][p]);
        }
      }
    }
    for (uint32_t i = 0; i < kTokensOfThread; ++i) {
      if (!blocks[i]) continue;
      for (uint32_t p = 0; p < kPairs; ++p) sums[i][p] = t.scale * sums[i][p];
      put_scores(i, sums[i]);
    }
  }

  // Loads n words of four levels of the quantized queries, starting at word `begin`.
  __device__ void load_words(uint32_t begin, uint32_t n) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n * kPairs; i += kAttendThreads) {
      const uint32_t p = i % kPairs;
      uint32_t word = 0;
      if (p < n_pairs) {
        const size_t query = static_cast<size_t>(row(p).row) * t.n_heads + head(p);
        word = read_as<uint32_t>(t.queries.levels + query * layout().key_dims +
                                 (begin + i / kPairs) * 4);
      }
      shared.words.set(i, word);
    }
    __syncthreads();
  }
  __device__ size_t query_of(uint32_t pair) const {
    return static_cast<size_t>(row(pair).row) * t.n_heads + head(pair);
  }

  // Computes the scores from levels. The sum over one group of dimensions is an integer; groups are
  // added in order.
  __device__ void score_levels() {
    float scores[kTokensOfThread][kPairs] = {};
    const uint8_t* blocks[kTokensOfThread];
    for (uint32_t i = 0; i < kTokensOfThread; ++i) {
      blocks[i] = pages.has(token_of(i)) ? block_of(token_of(i)) : nullptr;
    }
    const uint32_t group_words = (layout().key_group_dims + 3) / 4;
    for (uint32_t g = 0; g < layout().n_key_groups; ++g) {
      const uint32_t end = lesser((g + 1) * group_words, layout().key_dims / 4);
      int sums[kTokensOfThread][kPairs] = {};
      for (uint32_t begin = g * group_words; begin < end; begin += kQueryPiece) {
        const uint32_t n = lesser(kQueryPiece, end - begin);
        load_words(begin, n);
        for (uint32_t w = 0; w < n; ++w) {
          uint32_t q[kPairs];
          for (uint32_t p = 0; p < kPairs; p += 4) {
            const auto four = shared.words.template get_as<Words4>(w * kPairs + p);
            for (uint32_t j = 0; j < 4; ++j) q[p + j] = four.word[j];
          }
#pragma unroll
          for (uint32_t i = 0; i < kTokensOfThread; ++i) {
            if (!blocks[i]) continue;
            const uint32_t k =
                Pages::keys(layout(), blocks[i], token_of(i) % kPageTokens, begin + w);
#pragma unroll
            for (uint32_t p = 0; p < kPairs; ++p) {
              sums[i][p] = __dp4a(static_cast<int>(k), static_cast<int>(q[p]), sums[i][p]);
            }
          }
        }
      }
      add_group(g, blocks, sums, scores);
    }
    for (uint32_t i = 0; i < kTokensOfThread; ++i) {
      if (blocks[i]) put_scores(i, scores[i]);
    }
  }
  // Adds the scaled sums of one group of dimensions to the scores.
  __device__ void add_group(uint32_t g, const uint8_t* const (&blocks)[kTokensOfThread],
                            const int (&sums)[kTokensOfThread][kPairs],
                            float (&scores)[kTokensOfThread][kPairs]) {
    for (uint32_t p = 0; p < n_pairs; ++p) {
      const float factor = t.queries.group_scales[query_of(p) * kMaxKeyGroups + g];
#pragma unroll
      for (uint32_t i = 0; i < kTokensOfThread; ++i) {
        if (!blocks[i]) continue;
        const float scale = Pages::key_scale(layout(), blocks[i], g, token_of(i) % kPageTokens);
        const auto sum = static_cast<float>(sums[i][p]);
        scores[i][p] = g == 0 ? sum * scale : fmaf(sum * factor, scale, scores[i][p]);
      }
    }
  }

  // --- weights: sixteen lanes per pair ---

  // Returns the pair whose weights this thread computes.
  __device__ uint32_t own_pair() const { return threadIdx.x / kLanes; }
  __device__ Span own_seen() const { return own_pair() < n_pairs ? seen(own_pair()) : Span{0, 0}; }
  __device__ float score(uint32_t token) const {
    return shared.scores.get((token - split.begin) * kPairs + own_pair());
  }
  __device__ void set_score(uint32_t token, float value) {
    shared.scores.set((token - split.begin) * kPairs + own_pair(), value);
  }
  // Calls function(token) for each token of `span` that this lane processes, one in sixteen.
  template <class Function>
  __device__ void each_own(Span span, Function function) {
    const uint32_t lane = threadIdx.x % kLanes;
    for (uint32_t tile = span.begin / kLanes * kLanes; tile < span.end; tile += kLanes) {
      if (span.has(tile + lane)) function(tile + lane);
    }
  }

  // Merges a split's maximum and total into those of this lane's pair, and stores the factors with
  // which its sums are merged.
  __device__ void take_total(float split_top, float split_total) {
    const uint32_t p = own_pair();
    if (p >= n_pairs || seen(p).empty()) return;
    float a = 0.0f, b = 1.0f;
    if (seen(p).begin == visible(p).begin || item.n_splits == 1) {
      top = split_top;
      total = split_total;
    } else {
      const float both = max_of(top, split_top);
      a = exp_of(top - both);
      b = exp_of(split_top - both);
      total = fmaf(total, a, split_total * b);
      top = both;
    }
    if (threadIdx.x % kLanes != 0) return;
    shared.old_factors.set(p, a);
    shared.new_factors.set(p, b);
    float* to = partial(p) + layout().value_dim;
    to[0] = top;
    to[1] = total;
  }

  // Stores the sum of one dimension of a pair, merged with that of earlier splits.
  __device__ void put_sum(uint32_t pair, uint32_t d, float sum) {
    if (seen(pair).empty()) return;
    float* at = partial(pair) + d;
    const bool is_first = seen(pair).begin == visible(pair).begin || item.n_splits == 1;
    *at = is_first ? sum
                   : fmaf(*at, shared.old_factors.get(pair), sum * shared.new_factors.get(pair));
  }

  // Converts scores to weights, then adds up V.
  __device__ void weigh_floats() {
    const Span own = own_seen();
    float most = -__int_as_float(0x7f800000);
    each_own(own, [&](uint32_t token) {
      float s = score(token);
      if (t.soft_cap != 0.0f) {
        s = soft_capped(s, t.soft_cap);
        set_score(token, s);
      }
      most = max_of(s, most);
    });
    const float split_top = max_of_16(most);
    float sum = 0.0f;
    each_own(own, [&](uint32_t token) {
      const float p = exp_up_to_88(score(token) - split_top);
      set_score(token, p);
      sum = sum + p;
    });
    take_total(split_top, sum_of_16(sum));
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < layout().value_dim; d += kAttendThreads) add_values(d);
  }

  // Adds up V in one dimension. A token outside a pair's range is skipped, so its contents do not
  // matter.
  __device__ void add_values(uint32_t d) {
    Span own[kPairs];
    float sums[kPairs] = {};
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p) own[p] = p < n_pairs ? seen(p) : Span{0, 0};
    for (uint32_t begin = pages.begin; begin < pages.end; begin += kPageTokens) {
      const uint8_t* block = block_of(begin);
      for (uint32_t token = begin; token < begin + kPageTokens; ++token) {
        const float v = Pages::value(layout(), block, token - begin, d);
#pragma unroll
        for (uint32_t p = 0; p < kPairs; ++p) {
          if (!own[p].has(token)) continue;
          sums[p] = fmaf(shared.scores.get((token - split.begin) * kPairs + p), v, sums[p]);
        }
      }
    }
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p) {
      if (p < n_pairs) put_sum(p, d, sums[p]);
    }
  }

  // --- the same for quantized pages ---

  // Sum and maximum of the weights that one lane computed.
  struct WeightSums {
    float weight = 0.0f, most = 0.0f;
  };
  // Returns the quantum of the levels of weights. All sixteen lanes of the pair must call.
  __device__ QuantScale quantum_of_weights(const WeightSums& sums, Span own) {
    const float weight = sum_of_16(sums.weight);
    const float most = max_of_16(sums.most);
    if (own.empty()) return {0.0f, 0.0f};
    const uint32_t n = own.end - own.begin;
    if (n < 128) return quantum_for(most, kManySteps);
    const float steps = kMeanLevel * static_cast<float>(n) * most / weight;
    return quantum_for(most,
                       steps < kManySteps ? (steps > kFewSteps ? steps : kFewSteps) : kManySteps);
  }

  // Stores the levels of the weights of this lane's tokens; tokens of the pages outside the pair's
  // range get zero.
  template <class Weight>
  __device__ void put_levels(Span own, const QuantScale& quantum, Weight weight) {
    each_own(pages, [&](uint32_t token) {
      const float w = own.has(token) ? weight(token) : 0.0f;
      const uint32_t at = token - split.begin;
      shared.levels.set((at / 4 * kPairs + own_pair()) * 4 + at % 4,
                        static_cast<int16_t>(round_to_int(w * quantum.inverse)));
    });
    if (threadIdx.x % kLanes == 0) shared.steps.set(own_pair(), quantum.scale);
  }

  // Like weigh_floats(), but converts weights to integer levels, separately for each group of
  // dimensions of V.
  __device__ void weigh_levels() {
    const Span own = own_seen();
    const float query_scale = own.empty() ? 0.0f : t.queries.scales[query_of(own_pair())];
    const bool is_capped = t.soft_cap != 0.0f;
    float most = -__int_as_float(0x7f800000);
    each_own(own, [&](uint32_t token) {
      float s = score(token);
      if (is_capped) {
        s = soft_capped(s * query_scale, t.soft_cap);
        set_score(token, s);
      }
      most = max_of(s, most);
    });
    const float split_top = max_of_16(most);
    const float to_natural = is_capped ? 1.0f : query_scale;
    const float to_binary = to_natural * 0x1.715476p+0f;  // 1 / ln 2
    const bool is_huge = !(fabsf(split_top * to_binary) < kHugeScore);
    const float base = is_huge ? split_top : 0.0f;
    const float minus_top = is_huge ? 0.0f : -split_top * to_binary;
    const bool is_one_group = layout().n_value_groups == 1;
    float sum = 0.0f;
    WeightSums sums;
    each_own(own, [&](uint32_t token) {
      const float below = fmaf(score(token) - base, to_binary, minus_top);
      const float p = power_of_2(max_of(below, -100.0f));
      const float w = is_one_group ? p * value_scale(token, 0) : p;
      sum = sum + p;
      sums.weight = sums.weight + w;
      sums.most = max_of(sums.most, w);
      set_score(token, w);
    });
    take_total(split_top * to_natural, sum_of_16(sum));
    if (is_one_group) {
      const QuantScale quantum = quantum_of_weights(sums, own);
      put_levels(own, quantum, [&](uint32_t token) { return score(token); });
      __syncthreads();
      return add_group_values(0);
    }
    for (uint32_t g = 0; g < layout().n_value_groups; ++g) {
      WeightSums scaled;
      each_own(own, [&](uint32_t token) {
        const float w = score(token) * value_scale(token, g);
        scaled.weight = scaled.weight + w;
        scaled.most = max_of(scaled.most, w);
      });
      const QuantScale quantum = quantum_of_weights(scaled, own);
      __syncthreads();  // the levels of the previous group have been read
      put_levels(own, quantum,
                 [&](uint32_t token) { return score(token) * value_scale(token, g); });
      __syncthreads();
      add_group_values(g);
    }
  }
  __device__ float value_scale(uint32_t token, uint32_t g) const {
    return Pages::value_scale(layout(), block_of(token), g, token % kPageTokens);
  }

  // Adds up V in the dimensions of one group.
  __device__ void add_group_values(uint32_t g) {
    const uint32_t end = lesser((g + 1) * layout().value_group_dims, layout().value_dim);
    for (uint32_t d = g * layout().value_group_dims + threadIdx.x; d < end; d += kAttendThreads) {
      int sums[kPairs] = {};
      for (uint32_t begin = pages.begin; begin < pages.end; begin += kPageTokens) {
        const uint8_t* block = block_of(begin);
        for (uint32_t four = 0; four < kPageTokens / 4; ++four) {
          const auto v = static_cast<int>(Pages::values(layout(), block, four, d));
          const uint32_t at = ((begin - split.begin) / 4 + four) * kPairs * 4;
#pragma unroll
          for (uint32_t p = 0; p < kPairs; p += 2) {
            const auto two = shared.levels.template get_as<Words4>(at + 4 * p);
            for (uint32_t j = 0; j < 2; ++j) {
              sums[p + j] = __dp2a_lo(static_cast<int>(two.word[2 * j]), v, sums[p + j]);
              sums[p + j] = __dp2a_hi(static_cast<int>(two.word[2 * j + 1]), v, sums[p + j]);
            }
          }
        }
      }
#pragma unroll
      for (uint32_t p = 0; p < kPairs; ++p) {
        if (p < n_pairs) put_sum(p, d, static_cast<float>(sums[p]) * shared.steps.get(p));
      }
    }
  }
};

template <class Pages>
__global__ void __launch_bounds__(kAttendThreads) attend(AttendTask t) {
  __shared__ AttendShared shared;
  const AttendItem item = t.items[blockIdx.x];
  const uint32_t n_pairs = item.n_rows * t.group;
  for (uint32_t first = 0; first < n_pairs; first += kPairs) {
    Attending<Pages> some = {t, item, shared, first, lesser(kPairs, n_pairs - first)};
    const Span splits = some.splits();
    for (uint32_t s = splits.begin; s < splits.end; ++s) some.attend_split(s);
  }
}

}  // namespace
}  // namespace kvik::cuda
