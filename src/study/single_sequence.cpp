#include "study/single_sequence.h"

#include <algorithm>
#include <utility>

namespace kvik {

Result<std::unique_ptr<Engine>> single_sequence_engine(LoadedModel& loaded, uint32_t n_ctx,
                                                       const Clock& clock) {
  constexpr uint32_t kMaxStepTokens = 512, kSpareTokens = 63;
  const EngineOptions options{.kv_budget_bytes = loaded.kv().budget(n_ctx + kSpareTokens, 2),
                              .kv_type = loaded.kv_type,
                              .n_ctx_max = n_ctx,
                              .max_step_tokens = std::min(n_ctx, kMaxStepTokens),
                              .max_running = 1};
  return Engine::create(std::move(loaded.model), *loaded.backend, options, clock);
}

}  // namespace kvik
