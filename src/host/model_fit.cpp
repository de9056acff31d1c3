#include "host/model_fit.h"

#include <algorithm>

#include "host/available_memory.h"
#include "host/load_model.h"

namespace kvik {

Result<ModelFit> fit_of_model(const std::string& path) {
  constexpr uint32_t kUsualTokens = 4096;
  const ModelOptions options;
  TRY_ASSIGN(const auto backend, make_backend(options));
  TRY_ASSIGN(const auto source, open_model(path));
  TRY_ASSIGN(const Footprint footprint, Footprint::of(*source, *backend));
  const uint64_t n_ctx = std::min(kUsualTokens, footprint.config().n_ctx_train);
  return ModelFit{.needed_bytes = footprint.plan(options.kv_type, n_ctx, 1).total_bytes(),
                  .memory_bytes = machine_memory_bytes().value_or(UINT64_MAX),
                  .n_ctx = n_ctx};
}

}  // namespace kvik
