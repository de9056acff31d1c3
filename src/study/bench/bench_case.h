#pragma once

#include <cstdint>
#include <vector>

namespace kvik {

// One test: `batch` sequences, each with `depth` tokens of context before the measurement starts.
struct BenchCase {
  enum class Kind { kPrefill, kDecode } kind = Kind::kPrefill;
  uint32_t n_tokens = 512;  // number of measured tokens per sequence
  uint32_t depth = 0;
  uint32_t batch = 1;
  bool use_cache = true;  // false: every decode step recomputes all previous tokens
  bool fill = false;      // fills the context with noise instead of computing it
};

const char* test_name(const BenchCase& bench);

// The work of a test, independent of the machine: the operations, by the narrowest arithmetic that
// the operands allow, and the bytes to be read. One multiply-add counts as two operations.
struct Work {
  double int4_ops = 0;
  double int8_ops = 0;
  double bf16_ops = 0;
  double f32_ops = 0;
  double bytes = 0;

  double ops() const { return int4_ops + int8_ops + bf16_ops + f32_ops; }
};

// The result of one test.
struct BenchResult {
  BenchCase bench;
  std::vector<double> speeds;           // tokens/s of the whole batch, one value for each run
  double median = 0, min = 0, max = 0;  // of `speeds`
  Work work;                            // work for all measured tokens
  double limit = 0;                     // tokens/s at the limits of the machine; 0: not known
  uint64_t context_bytes = 0;           // bytes of the KV cache of all sequences at the end

  double limit_share() const { return limit > 0 ? median / limit : 0; }
  double seconds() const { return double{1} * bench.n_tokens * bench.batch / median; }
};

}  // namespace kvik
