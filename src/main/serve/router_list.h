#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "main/serve/router_options.h"

namespace kvik {

// The stored models as models of a router.
struct StoredRouterModels {
  // Returns a value that changes with the stored models; cheap.
  std::function<std::string()> version;
  std::function<Result<std::vector<RouterModel>>()> read;
};

// The models of a router: those of the command line, or the stored ones, in which case the list
// follows what is downloaded and removed. Any thread.
class RouterList {
 public:
  explicit RouterList(std::vector<RouterModel> models) : models_(std::move(models)) {}
  // Errors: those of reading the models.
  static Result<std::unique_ptr<RouterList>> follow(StoredRouterModels stored);

  std::optional<RouterModel> find(std::string_view name) const;
  size_t size() const;
  std::vector<ModelSpec> specs() const;

  // Returns the models if they have changed since the last call. A list that cannot be read, or in
  // which a name occurs twice, is logged and changes nothing.
  std::optional<std::vector<ModelSpec>> changed_specs();

 private:
  RouterList(StoredRouterModels stored, std::string version, std::vector<RouterModel> models)
      : stored_(std::move(stored)), models_(std::move(models)), version_(std::move(version)) {}

  const std::optional<StoredRouterModels> stored_;
  mutable Mutex mutex_;
  std::vector<RouterModel> models_ GUARDED_BY(mutex_);
  std::string version_ GUARDED_BY(mutex_);
};

}  // namespace kvik
