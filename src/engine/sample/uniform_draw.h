#pragma once

#include <cstdint>

namespace kvik {

// Returns a uniform number in [0, 1) that depends only on the arguments. Without state, preemption
// and batching cannot change it. (SplitMix64's finalizer over the three words, Steele et al. 2014)
double uniform_draw(uint64_t seed, uint32_t choice_index, uint64_t position);

}  // namespace kvik
