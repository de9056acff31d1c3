#include "main/models/model_argument.h"

#include "host/model_fit.h"
#include "hub/model_download.h"
#include "hub/resolve_model.h"
#include "main/models/download_display.h"
#include "main/models/hub_options.h"

namespace kvik {

Result<void> resolve_model_argument(std::string& model, std::string* stored_name,
                                    IfNotStored if_not_stored) {
  if (is_local_model(model)) return {};
  TRY_ASSIGN(const HubOptions options, hub_options());
  ModelStore store(options);
  auto resolved = resolve_model(store, model);
  if (!resolved && if_not_stored == IfNotStored::kDownload && has_origin(store, model)) {
    DownloadDisplay display;
    TRY_ASSIGN(const StoredModel stored,
               download_model(store, model, fit_of_model, [&](const PullProgress& progress) {
                 display.show(progress);
                 return true;
               }));
    resolved = ResolvedModel{stored.path, stored.name};
  }
  // open_model() reports names that are unknown; `kvik plan` takes the name of a preset.
  if (!resolved) return {};
  model = resolved->path;
  if (stored_name != nullptr) *stored_name = resolved->name;
  return {};
}

Result<void> with_headers(const std::string& model,
                          const std::function<Result<void>(const std::string& path)>& use) {
  if (is_local_model(model)) return use(model);
  TRY_ASSIGN(const HubOptions options, hub_options());
  const ModelStore store(options);
  if (!has_origin(store, model)) return use(model);
  return with_remote_headers(store, model, use, [] { return true; });
}

}  // namespace kvik
