#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

// The options of `kvik plan`.
struct PlanOptions {
  ModelOptions model;
  uint64_t n_users = 1;
  uint64_t memory_bytes = 0;   // 0: the memory of this machine
  uint64_t adapter_bytes = 0;  // `kvik serve --adapter-memory`
  bool has_kv_events = false;  // `kvik serve --kv-events`
  bool as_json = false;
  bool wants_svg = false;
};

struct PlanReport {
  std::string text;      // text, or one JSON object
  std::string svg = {};  // chart of what fits in which memory; empty unless requested
};

// Plans the memory of a model: weights, KV cache by type, users.
Result<PlanReport> plan_model(const PlanOptions& options);

}  // namespace kvik
