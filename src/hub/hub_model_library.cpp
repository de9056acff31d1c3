#include "hub/hub_model_library.h"

#include <utility>

#include "hub/model_download.h"
#include "hub/stores/model_store.h"

namespace kvik {
namespace {

class HubModelLibrary final : public ModelLibrary {
 public:
  HubModelLibrary(HubOptions options, FitCheck check_fit)
      : store_(std::move(options)), check_fit_(std::move(check_fit)) {}

  Result<std::vector<StoredModel>> list() override { return store_.list(); }
  Result<StoredModel> pull(const std::string& name, const OnProgress& on_progress) override {
    return download_model(store_, name, check_fit_, on_progress);
  }
  Result<void> remove(const std::string& name) override { return store_.remove(name); }
  Result<void> copy(const std::string& from, const std::string& to) override {
    return store_.copy(from, to);
  }

 private:
  ModelStore store_;
  const FitCheck check_fit_;
};

}  // namespace

std::unique_ptr<ModelLibrary> make_model_library(HubOptions options, FitCheck check_fit) {
  return std::make_unique<HubModelLibrary>(std::move(options), std::move(check_fit));
}

}  // namespace kvik
