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

// What `kvik explain` measures beside the generation: each on the model or its geometry, here and
// now. Loaded models are borrowed.

using Progress = std::function<void(const std::string& what)>;

// The tests of `kvik bench` with its own figures, and prefills of 1, 2, 4 … tokens.
struct PhaseTimes {
  std::vector<BenchResult> bench;  // prefill, decode
  std::vector<BenchResult> rows;
};
PhaseTimes measure_phases(const LoadedModel& loaded, KvType type, const LimitModel& limits,
                          const MachineLimits& machine, const Progress& progress);

// One token with K and V of `depth` others, the model as it is but for the type of its pages.
struct TypeTime {
  KvType type;
  BenchResult decode;
  uint64_t bytes_per_token = 0;
};
std::vector<TypeTime> measure_types(const LoadedModel& loaded, uint32_t depth,
                                    const Progress& progress);

// The attention alone, with other heads or another span.
struct ShapeTime {
  std::string name;  // "as it is", "a KV head for each query head", "one KV head", "a window"
  uint32_t n_kv_heads = 0;
  uint32_t window = 0;  // 0: as the model has it, all seen where it has none
  Spread ms;
  uint64_t kv_bytes = 0;  // of the context's pages that are needed at once
};
std::vector<ShapeTime> measure_shapes(const LoadedModel& loaded, KvType type, uint32_t depth,
                                      const Progress& progress);

// Two users whose prompts begin with the same n_shared tokens and end in n_own others.
struct SharingTime {
  uint32_t n_shared = 0, n_own = 0;
  uint32_t n_found = 0;  // tokens that the second one found
  Spread first_ttft_ms, second_ttft_ms;
};
Result<SharingTime> measure_sharing(ServiceApi& service, uint32_t n_shared, uint32_t n_own);

// Pages by type and context, against this machine.
struct MemoryRow {
  KvType type;
  uint64_t bytes_per_token = 0;
  std::vector<uint64_t> bytes;   // by context
  uint64_t longest_context = 0;  // of one user, beside the weights
  uint64_t users_that_fit = 0;   // of the last context each
};
struct MemoryTable {
  uint64_t machine_bytes = 0, available_bytes = 0;
  uint64_t weights_bytes = 0, buffers_bytes = 0;
  std::vector<uint64_t> contexts;
  std::vector<MemoryRow> rows;
};
MemoryTable memory_table(const Footprint& footprint, uint64_t n_ctx);

// The depth at which types and shapes are compared: the trained context, at most 4,096 tokens, and
// less where the widest pages of it would take more than a quarter of what memory is free.
uint32_t probe_depth(const LoadedModel& loaded);

}  // namespace kvik
