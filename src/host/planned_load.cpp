#include "host/planned_load.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "engine/memory_plan.h"
#include "host/available_memory.h"

namespace kvik {

Result<LoadedModel> load_with_plan(const ModelOptions& options, const EngineOptions& engine) {
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(const auto source, open_model(options.model));
  const auto config = read_config(source->metadata());
  const auto weights = plan_weights(*source, *backend);
  // What is wrong with a file is said in full by loading it.
  if (config && weights) {
    const MemoryPlan plan = plan_memory(*config, *weights, *backend, engine);
    log::info("memory: {} = weights {} + KV cache {} + buffers {}",
              format_bytes(plan.total_bytes()), format_bytes(plan.weights_bytes),
              format_bytes(plan.kv_bytes), format_bytes(plan.buffers_bytes()));
    const auto available = available_memory_bytes();
    if (available && plan.total_bytes() > *available) {
      log::warn(
          "that is more than the {} that this machine has left: it will swap, or end this process, "
          "unless --kv-memory is less",
          format_bytes(*available));
    }
  }
  return load_model(options, *source, std::move(backend));
}

}  // namespace kvik
