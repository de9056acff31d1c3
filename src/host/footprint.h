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

// The pages of one model in one type.
struct KvFootprint {
  KvFootprint(const ModelConfig& config, const Backend& backend, KvType kv_type);

  KvType type;
  KvLayout layout;
  uint64_t bytes_per_token = 0;          // K and V of all layers
  uint64_t lasting_bytes_per_token = 0;  // of those without a window

  // Of one page in each layer group.
  uint64_t page_bytes() const { return layout.page_bytes * layout.n_groups(); }
  // Of the pages that one sequence of n_tokens needs at once: what slid out of a window is not.
  uint64_t bytes_at_once(uint64_t n_tokens) const;
  // A budget for n_sequences of n_tokens whose pages all stay, beside what is on its way to and
  // from tiers. max_running: of the engine, where it is more than n_sequences.
  uint64_t budget(uint64_t n_tokens, uint64_t n_sequences, std::span<const TierPlace> tiers = {},
                  uint64_t max_running = 0) const;
};

// The memory that an engine will hold. What it says of weights, decoder and scratch is what those
// allocate, to the byte (a test compares them); the bookkeeping of pages is an upper bound.
struct MemoryPlan {
  struct Part {
    std::string name;
    uint64_t n_bytes = 0;
    // In the memory of the backend, as weights and pages are; all of the decoder counts as such,
    // though a few rows of logits lie on the host.
    bool is_backends = false;
  };

  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;      // whole pages of the budget, states and open pages
  std::vector<Part> buffers;  // all else

  uint64_t buffers_bytes() const;
  uint64_t total_bytes() const { return weights_bytes + kv_bytes + buffers_bytes(); }
  // Of these, in the backend's memory: all that a GPU has to have room for.
  uint64_t backend_bytes() const;
};

// What users of so many tokens each make of a memory.
struct UserFit {
  uint64_t fixed_bytes = 0;  // without a user
  uint64_t bytes_per_user = 0;
};

// The memory of a model, known before a weight is read.
class Footprint {
 public:
  // Errors: those of read_config(); kUnsupported for an element type that cannot be computed with,
  // names the tensor. The backend is borrowed.
  static Result<Footprint> of(const ModelSource& source, const Backend& backend);

  const ModelConfig& config() const { return config_; }
  const WeightPlan& weights() const { return weights_; }
  KvFootprint kv(KvType type) const { return {config_, backend_, type}; }

  MemoryPlan plan(const EngineOptions& options) const;
  // With pages for so many users of n_ctx tokens.
  MemoryPlan plan(KvType type, uint64_t n_ctx, uint64_t n_users) const;
  UserFit users(KvType type, uint64_t n_ctx) const;
  // The most users of n_ctx tokens whose plan a memory holds.
  uint64_t users_in(KvType type, uint64_t n_ctx, uint64_t memory_bytes) const;
  // The most tokens, in whole pages, that one user alone can have in a memory.
  uint64_t longest_context(KvType type, uint64_t memory_bytes) const;

 private:
  Footprint(ModelConfig config, WeightPlan weights, const Backend& backend)
      : config_(std::move(config)), weights_(std::move(weights)), backend_(backend) {}

  ModelConfig config_;
  WeightPlan weights_;
  const Backend& backend_;
};

// What a model's weights would be in a file of some type.
struct TypeSize {
  std::string type;
  uint64_t n_bytes = 0;
  double bits_per_weight = 0;
};

// f32, and every type that `kvik quantize` makes, with its mix; the largest first. From the tensor
// table alone.
std::vector<TypeSize> type_sizes(const ModelSource& source);

}  // namespace kvik
