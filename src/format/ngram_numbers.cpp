#include "format/ngram_numbers.h"

#include <algorithm>
#include <limits>

namespace kvik {
namespace {

// The step of SplitMix64 and its mixing (Steele et al. 2014).
constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

bool is_prime(uint64_t n) {
  for (uint64_t divisor = 2; divisor * divisor <= n; ++divisor) {
    if (n % divisor == 0) return false;
  }
  return n > 1;
}

}  // namespace

std::vector<uint64_t> ngram_multipliers(uint64_t seed, uint64_t n_vocab, uint64_t n) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const uint64_t half = std::max<uint64_t>(1, kMost / std::max<uint64_t>(n_vocab, 1) / 2);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < n; ++i) all.push_back(2 * (mixed(seed + (i + 2) * kStep) % half) + 1);
  return all;
}

std::vector<uint64_t> primes_from(uint64_t base, uint64_t n) {
  std::vector<uint64_t> primes;
  for (uint64_t number = base; primes.size() < n; ++number) {
    if (is_prime(number)) primes.push_back(number);
  }
  return primes;
}

std::vector<uint64_t> ngram_offsets(const std::vector<uint64_t>& rows) {
  std::vector<uint64_t> offsets;
  uint64_t n_rows = 0;
  for (const uint64_t n : rows) {
    offsets.push_back(n_rows);
    n_rows += n;
  }
  return offsets;
}

}  // namespace kvik
