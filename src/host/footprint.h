#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "engine/engine.h"
#include "format/model_source.h"
#include "model/weight_plan.h"

namespace kvik {

// Sizes of the KV pages of a model for one KV type.
struct KvFootprint {
  KvFootprint(const ModelConfig& config, const Backend& backend, KvType kv_type);

  KvType type;
  KvLayout layout;
  uint64_t bytes_per_token = 0;          // K and V of all layers
  uint64_t lasting_bytes_per_token = 0;  // K and V of layers with full attention

  // Returns the total bytes of one page in each layer group.
  uint64_t page_bytes() const { return layout.page_bytes * layout.n_groups(); }
  // Returns the bytes of the pages that a sequence of n_tokens needs at once. Pages outside of a
  // sliding window do not count.
  uint64_t bytes_at_once(uint64_t n_tokens) const;
  // Returns the budget for n_sequences of n_tokens that keep all their pages, including transfers
  // to and from tiers. max_running: of the engine, if it is more than n_sequences.
  uint64_t budget(uint64_t n_tokens, uint64_t n_sequences, std::span<const TierPlace> tiers = {},
                  uint64_t max_running = 0) const;
};

// Planned memory of an engine. Weights, decoder and scratch are exact to the byte (a test compares
// them with the allocations); the bookkeeping of pages is an upper bound.
struct MemoryPlan {
  struct Part {
    std::string name;
    uint64_t n_bytes = 0;
    // True if the part is in backend memory, as weights and pages are. The whole decoder counts,
    // although a few rows of logits are in host memory.
    bool is_in_backend_memory = false;
  };

  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;      // whole pages of the budget, states and open pages
  std::vector<Part> buffers;  // everything else

  uint64_t buffers_bytes() const;
  uint64_t total_bytes() const { return weights_bytes + kv_bytes + buffers_bytes(); }
  // Returns the bytes of backend memory, which a GPU must have free.
  uint64_t backend_bytes() const;
};

// Memory as a function of the number of users.
struct UserFit {
  uint64_t fixed_bytes = 0;  // without users
  uint64_t bytes_per_user = 0;
};

// Memory of a model, known before any weight is read.
class Footprint {
 public:
  // Borrows the backend. Errors: those of read_config(); kUnsupported for an element type without
  // kernels, naming the tensor.
  static Result<Footprint> of(const ModelSource& source, const Backend& backend);

  const ModelConfig& config() const { return config_; }
  const WeightPlan& weights() const { return weights_; }
  KvFootprint kv(KvType type) const { return {config_, backend_, type}; }

  MemoryPlan plan(const EngineOptions& options) const;
  // Returns the plan with pages for n_users with n_ctx tokens each.
  MemoryPlan plan(KvType type, uint64_t n_ctx, uint64_t n_users) const;
  UserFit users(KvType type, uint64_t n_ctx) const;
  // Returns the maximum number of users with n_ctx tokens whose plan fits into the memory.
  uint64_t users_in(KvType type, uint64_t n_ctx, uint64_t memory_bytes) const;
  // Returns the maximum context of a single user that fits into the memory, in whole pages.
  uint64_t longest_context(KvType type, uint64_t memory_bytes) const;

 private:
  Footprint(ModelConfig config, WeightPlan weights, const Backend& backend)
      : config_(std::move(config)), weights_(std::move(weights)), backend_(backend) {}

  MemoryPlan encoder_plan(const EngineOptions& options) const;

  ModelConfig config_;
  WeightPlan weights_;
  const Backend& backend_;
};

// Size of a model's weights in a file of some type.
struct TypeSize {
  std::string type;
  uint64_t n_bytes = 0;
  double bits_per_weight = 0;
};

// Returns the sizes for f32 and every type that `kvik quantize` writes, with its mix, the largest
// first. Uses the tensor table only.
std::vector<TypeSize> type_sizes(const ModelSource& source);

}  // namespace kvik
