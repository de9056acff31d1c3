#include "host/models/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace kvik {

void update_models(std::vector<std::shared_ptr<ModelEntry>>& models, std::vector<ModelSpec> specs) {
  std::vector<std::shared_ptr<ModelEntry>> updated;
  for (ModelSpec& spec : specs) {
    const auto known = std::ranges::find_if(
        models, [&](const auto& model) { return model && model->spec.name == spec.name; });
    auto model = known == models.end() ? std::make_shared<ModelEntry>() : std::move(*known);
    const bool is_new = model->spec.name.empty();
    const bool is_other = model->spec.path != spec.path;
    const bool must_unload = !is_new && is_other && model->process;
    if (is_new || must_unload) model->keep_alive = spec.keep_alive;
    if (must_unload) model->must_unload = true;
    if (is_other) model->is_planned = false;
    if (is_other && model->state == ModelState::kFailed) {
      model->state = ModelState::kUnloaded;
      model->error.reset();
    }
    model->spec = std::move(spec);
    model->is_removed = false;
    updated.push_back(std::move(model));
  }
  for (auto& model : models) {
    if (!model) continue;
    model->is_removed = true;
    model->must_unload = model->process.has_value();
    updated.push_back(std::move(model));
  }
  models = std::move(updated);
}

bool has_waiting_since(const std::vector<std::shared_ptr<ModelEntry>>& models, TimePoint since) {
  return std::ranges::any_of(models, [&](const auto& model) {
    return model->state == ModelState::kUnloaded && model->has_waiting() &&
           model->waits_since <= since;
  });
}

MemoryUse memory_beside(const std::vector<std::shared_ptr<ModelEntry>>& models,
                        const ModelEntry& next) {
  MemoryUse use;
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelEntry& model = *models[i];
    if (&model == &next) continue;
    const uint64_t n_process = model.process_bytes();
    const bool is_ending = model.state == ModelState::kUnloading;
    use.n_bytes += n_process + model.kept_bytes;
    use.n_bytes_later += (is_ending ? 0 : n_process) + model.kept_bytes;
    if (model.is_idle())
      use.evictable.push_back(
          {.model = i, .is_loaded = true, .n_bytes = n_process, .last_used = model.last_used});
    if (!model.process && model.kept_bytes > 0)
      use.evictable.push_back({.model = i,
                               .is_loaded = false,
                               .n_bytes = model.kept_bytes,
                               .last_used = model.last_used});
  }
  return use;
}

std::shared_ptr<ModelEntry> removed_model(const std::string& name) {
  auto model = std::make_shared<ModelEntry>();
  model->spec.name = name;
  model->is_removed = true;
  model->state = ModelState::kFailed;
  model->retry_at = TimePoint::max();
  model->error = Error{ErrorCode::kNotFound,
                       fmt::format("the model '{}' has been removed", printable(name)), "model"};
  return model;
}

}  // namespace kvik
