#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/models/evictions.h"
#include "host/models/model_entry.h"
#include "host/models/model_spec.h"

namespace kvik {

// Changes the models to `specs`, in their order. A model that is not among them is marked as
// removed, moved to the end, and unloaded when no request uses it; the others keep their state. A
// loaded model whose path has changed is loaded again by the next request.
void update_models(std::vector<std::shared_ptr<ModelEntry>>& models, std::vector<ModelSpec> specs);

// Returns whether a request has waited since then for a model that is not being loaded.
bool has_waiting_since(const std::vector<std::shared_ptr<ModelEntry>>& models, TimePoint since);

// Memory of models.
struct MemoryUse {
  uint64_t n_bytes = 0;        // now
  uint64_t n_bytes_later = 0;  // when the processes that are ending have ended
  std::vector<EvictableMemory> evictable;
};

// Returns the memory of all models but `next`.
MemoryUse memory_beside(const std::vector<std::shared_ptr<ModelEntry>>& models,
                        const ModelEntry& next);

// Returns an entry for uses of a model that is not in the list: it has failed, for this reason.
std::shared_ptr<ModelEntry> removed_model(const std::string& name);

}  // namespace kvik
