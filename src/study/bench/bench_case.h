#pragma once

#include <cstdint>
#include <vector>

namespace kvik {

// What is measured: `batch` sequences, each with `depth` tokens of context before the clock starts.
struct BenchCase {
  enum class Kind { kPrefill, kDecode } kind = Kind::kPrefill;
  uint32_t n_tokens = 512;  // per sequence, on the clock
  uint32_t depth = 0;
  uint32_t batch = 1;
  bool use_cache = true;  // false: every decode step computes all tokens before it again
  bool fill = false;      // pages of `depth` are filled with noise instead of being computed
};

const char* test_name(const BenchCase& bench);

// What a test asks of any machine: operations, by the narrowest arithmetic that their operands
// allow, and bytes that must be read. One multiply-add counts as two operations.
struct Work {
  double int8_ops = 0;
  double bf16_ops = 0;
  double f32_ops = 0;
  double bytes = 0;

  double ops() const { return int8_ops + bf16_ops + f32_ops; }
};

// One test, measured.
struct BenchResult {
  BenchCase bench;
  std::vector<double> speeds;           // tok/s of the whole batch, run by run
  double median = 0, min = 0, max = 0;  // of them
  Work work;                            // of all its tokens
  double limit = 0;                     // tok/s that the machine's ceilings allow; 0: not known
  uint64_t context_bytes = 0;           // pages of all sequences, at the end

  double limit_share() const { return limit > 0 ? median / limit : 0; }
  double seconds() const { return double{1} * bench.n_tokens * bench.batch / median; }
};

}  // namespace kvik
