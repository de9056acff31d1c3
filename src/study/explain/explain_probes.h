#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/isa/machine_limits.h"
#include "host/footprint.h"
#include "host/load_model.h"
#include "service/service_api.h"
#include "study/bench/limit_model.h"
#include "study/explain/attention_probe.h"

namespace kvik {

// The measurements of `kvik explain` apart from the generation. Each uses the model or its
// geometry. Loaded models are borrowed.

using Progress = std::function<void(const std::string& what)>;

// The results of the tests of `kvik bench` with fewer tokens, and of prefills of 1, 2, 4 … tokens.
struct PhaseTimes {
  std::vector<BenchResult> bench;  // a prefill and a decode
  std::vector<BenchResult> rows;
};
PhaseTimes measure_phases(const LoadedModel& loaded, KvType type, const LimitModel& limits,
                          const MachineLimits& machine, const Progress& progress);

// The time to decode one token with `depth` tokens of context, for one KV type.
struct TypeTime {
  KvType type;
  BenchResult decode;
  uint64_t bytes_per_token = 0;
};
std::vector<TypeTime> measure_types(const LoadedModel& loaded, uint32_t depth,
                                    const Progress& progress);

// The time of the attention alone, with another number of heads or another window.
struct ShapeTime {
  std::string name;  // "as it is", "a KV head for each query head", "one KV head", "a window"
  uint32_t n_kv_heads = 0;
  uint32_t window = 0;  // 0: the model's own windows, if any
  Spread ms;
  uint64_t kv_bytes = 0;  // bytes of the pages needed at the same time
};
std::vector<ShapeTime> measure_shapes(const LoadedModel& loaded, KvType type, uint32_t depth,
                                      const Progress& progress);

// The times to first token of two users whose prompts share n_shared tokens and differ in n_own
// tokens.
struct SharingTime {
  uint32_t n_shared = 0, n_own = 0;
  uint32_t n_found = 0;  // number of cached tokens of the second user's prompt
  Spread first_ttft_ms, second_ttft_ms;
};
Result<SharingTime> measure_sharing(ServiceApi& service, uint32_t n_shared, uint32_t n_own);

// The size of the KV cache for one type by context, compared with this machine.
struct MemoryRow {
  KvType type;
  uint64_t bytes_per_token = 0;
  std::vector<uint64_t> bytes;   // one value for each context
  uint64_t longest_context = 0;  // of one user, in the memory left by the weights
  uint64_t users_that_fit = 0;   // number of users with the last context
};
struct MemoryTable {
  uint64_t machine_bytes = 0, available_bytes = 0;
  uint64_t weights_bytes = 0, buffers_bytes = 0;
  std::vector<uint64_t> contexts;
  std::vector<MemoryRow> rows;
};
MemoryTable memory_table(const Footprint& footprint, uint64_t n_ctx);

// Returns the depth at which types and shapes are compared: the trained context, at most 4,096
// tokens, and less if the largest KV type would take more than a quarter of the free memory.
uint32_t probe_depth(const LoadedModel& loaded);

}  // namespace kvik
