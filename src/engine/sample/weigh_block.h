#pragma once

#include <cstddef>
#include <span>

namespace kvik {

// Scales logits before weight_of().
struct Temperature {
  float peak;  // the largest logit
  float temperature;

  // A logit that is not finite gives a NaN or an infinity: weight_of() of both is 0.
  float scaled(float logit) const { return (logit - peak) / temperature; }
};

inline constexpr size_t kWeighBlock = 64;  // logits of a block

// Sets the weights of a block, weight_of() of the scaled logits, or 0 where that is below `least`.
// Returns their sum: eight parts, each of every eighth weight, added pairwise. `weights` may be
// `logits`.
using WeighBlock = double (*)(std::span<const float, kWeighBlock> logits, Temperature t,
                              float least, std::span<float, kWeighBlock> weights);

// Returns a function for each instruction set of this processor, the fastest last. All give the
// same bits.
std::span<const WeighBlock> weigh_blocks();

}  // namespace kvik
