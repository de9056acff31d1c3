#include "engine/sample/weigh_block.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/sample/weight_of.h"

namespace kvik {
namespace {

using Logits = std::span<const float, kWeighBlock>;
using Weights = std::span<float, kWeighBlock>;

// Inlined into functions for several instruction sets. Compilers vectorize each of its loops, which
// AVX-512 would not make faster than AVX2.
[[gnu::always_inline]] inline double weigh(Logits logits, Temperature t, float least, Weights out) {
  double polynomials[kWeighBlock];
  uint64_t exponents[kWeighBlock], powers[kWeighBlock];
  float weights[kWeighBlock];
  for (size_t i = 0; i < kWeighBlock; ++i) {
    const WeightParts parts = weight_parts(t.scaled(logits.data()[i]));
    polynomials[i] = parts.polynomial;
    exponents[i] = parts.k;
  }
  for (size_t i = 0; i < kWeighBlock; ++i) powers[i] = kWeightPowers[exponents[i] % 32];
  for (size_t i = 0; i < kWeighBlock; ++i) {
    const float weight = weight_of(WeightParts{polynomials[i], exponents[i]}, powers[i]);
    weights[i] = weight >= least ? weight : 0;
  }
  std::ranges::copy(weights, out.begin());
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  for (size_t i = 0; i < kWeighBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weights[i + lane];
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

double weigh_portable(Logits logits, Temperature t, float least, Weights weights) {
  return weigh(logits, t, least, weights);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
[[gnu::target("avx2"), gnu::optimize("O3")]] double weigh_avx2(Logits logits, Temperature t,
                                                               float least, Weights weights) {
  return weigh(logits, t, least, weights);
}

std::vector<WeighBlock> supported() {
  std::vector<WeighBlock> all = {weigh_portable};
  if (__builtin_cpu_supports("avx2")) all.push_back(weigh_avx2);
  return all;
}
#else
std::vector<WeighBlock> supported() { return {weigh_portable}; }
#endif

}  // namespace

std::span<const WeighBlock> weigh_blocks() {
  static const std::vector<WeighBlock> all = supported();
  return all;
}

}  // namespace kvik
