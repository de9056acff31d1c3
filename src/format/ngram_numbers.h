#pragma once

#include <cstdint>
#include <vector>

namespace kvik {

// The numbers of n-grams (NgramConfig) that follow from a seed and a number of rows.

// Returns n odd multipliers whose products with a token do not overflow a signed integer.
std::vector<uint64_t> ngram_multipliers(uint64_t seed, uint64_t n_vocab, uint64_t n);

// Returns the first n primes that are at least `base`: the rows of the heads.
std::vector<uint64_t> primes_from(uint64_t base, uint64_t n);

// Returns where the rows of each head begin.
std::vector<uint64_t> ngram_offsets(const std::vector<uint64_t>& rows);

}  // namespace kvik
