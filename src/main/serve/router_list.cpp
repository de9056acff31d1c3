#include "main/serve/router_list.h"

#include "base/log.h"

namespace kvik {
namespace {

std::vector<ModelSpec> specs_of(const std::vector<RouterModel>& models) {
  std::vector<ModelSpec> specs;
  for (const RouterModel& model : models) specs.push_back(model.spec);
  return specs;
}

}  // namespace

Result<std::unique_ptr<RouterList>> RouterList::follow(StoredRouterModels stored) {
  std::string version = stored.version();  // before the models, so that no change is missed
  TRY_ASSIGN(auto models, stored.read());
  return std::unique_ptr<RouterList>(
      new RouterList(std::move(stored), std::move(version), std::move(models)));
}

std::optional<RouterModel> RouterList::find(std::string_view name) const {
  const MutexLock lock(mutex_);
  for (const RouterModel& model : models_)
    if (model.spec.name == name) return model;
  return std::nullopt;
}

size_t RouterList::size() const {
  const MutexLock lock(mutex_);
  return models_.size();
}

std::vector<ModelSpec> RouterList::specs() const {
  const MutexLock lock(mutex_);
  return specs_of(models_);
}

std::optional<std::vector<ModelSpec>> RouterList::changed_specs() {
  if (!stored_) return std::nullopt;
  const MutexLock lock(mutex_);
  std::string version = stored_->version();
  if (version == version_) return std::nullopt;
  version_ = std::move(version);
  auto models = stored_->read();
  if (!models) {
    log::warn("the list of models stays as it was: {}", models.error().message);
    return std::nullopt;
  }
  models_ = std::move(*models);
  log::info("the stored models have changed: {} are served", models_.size());
  return specs_of(models_);
}

}  // namespace kvik
