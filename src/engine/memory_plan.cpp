#include "engine/memory_plan.h"

#include "kv/kv_cache.h"
#include "model/decoder.h"
#include "model/layer_groups.h"

namespace kvik {
namespace {

// What the pool, the prefix index and page tables know of one page: measured, rounded up.
constexpr uint64_t kIndexBytes = 768;
// What a thread's stack, its allocator's arena and its queues come to.
constexpr uint64_t kThreadBytes = uint64_t{256} << 10;
// Network, large bodies, engine; the workers are counted by the backend.
constexpr uint64_t kServiceThreads = 5;

}  // namespace

uint64_t MemoryPlan::buffers_bytes() const {
  uint64_t sum = 0;
  for (const Part& part : buffers) sum += part.n_bytes;
  return sum;
}

WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options) {
  return {.n_rows = options.max_step_tokens,
          .n_experts = config.experts.n_experts,
          .n_expert_rows = options.max_step_tokens * config.experts.n_used,
          .n_sequences = options.max_running,
          .weights = std::move(kinds),
          .kv = kv_geometry(config, options.kv_type),
          .n_heads = config.n_heads,
          .n_ctx = options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train};
}

uint64_t kv_bytes_of_sequence(const ModelConfig& config, const Backend& backend, KvType type,
                              uint64_t n_tokens) {
  const KvLayout layout(backend.page_bytes(kv_geometry(config, type)),
                        group_layers(config).windows);
  return pages_at_once(layout, n_tokens) * layout.page_bytes;
}

MemoryPlan plan_memory(const ModelConfig& config, const WeightPlan& weights, Backend& backend,
                       const EngineOptions& options) {
  const uint64_t page_bytes = backend.page_bytes(kv_geometry(config, options.kv_type));
  const uint64_t n_pages = options.kv_budget_bytes / page_bytes;
  MemoryPlan plan{
      .weights_bytes = weights.n_bytes, .kv_bytes = n_pages * page_bytes, .buffers = {}};
  const auto add = [&](const char* name, uint64_t n_bytes) {
    plan.buffers.push_back({name, n_bytes});
  };
  add("decoder", Decoder::buffer_bytes(config, options.max_step_tokens));
  add("kernels", backend.scratch_bytes(work_limits(config, weights.kinds, options)));
  add("sampler", Sampler::buffer_bytes(config.n_vocab));
  add("page index", n_pages * kIndexBytes);
  add("threads", (backend.n_threads() + kServiceThreads) * kThreadBytes);
  return plan;
}

}  // namespace kvik
