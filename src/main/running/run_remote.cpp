#include "main/running/run_remote.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/remote/remote_generator.h"
#include "cli/remote/served_models.h"

namespace kvik {
namespace {

// Returns whether a flag asks for something that a running server cannot change.
bool concerns_loading(const RunOptions& options) {
  const ModelOptions usual;
  const ModelOptions& model = options.model;
  const bool changes_model = model.n_threads != usual.n_threads || !model.chooses_ctx ||
                             model.kv_type != usual.kv_type ||
                             model.huge_pages != usual.huge_pages || !model.isa.empty() ||
                             model.leaves_tables_in_file != usual.leaves_tables_in_file ||
                             !model.adapter.empty() || model.gpu.has_value();
  const bool has_tier =
      !options.tiers.disk.empty() || !options.tiers.shared.empty() || !options.tiers.redis.empty();
  const SpeculationOptions& speculation = options.speculation.options;
  const bool speculates =
      !options.speculation.draft.empty() || speculation.mode != SpeculationOptions{}.mode;
  return changes_model || has_tier || speculates || options.no_cache;
}

std::unexpected<Error> not_served(const std::string& name, const HttpClient& client,
                                  const std::vector<ServedModel>& models) {
  std::vector<std::string> names;
  for (const ServedModel& model : models) names.push_back(model.id);
  return fail(ErrorCode::kNotFound,
              fmt::format("{} does not serve '{}'; it serves {}", client.url().text(), name,
                          names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

Result<std::unique_ptr<Generator>> find_running(const RunOptions& options) {
  const bool must_be_remote = options.server.names_server();
  if (options.local || options.server.is_off()) return nullptr;
  if (concerns_loading(options)) {
    if (!must_be_remote) return nullptr;
    return fail(ErrorCode::kInvalidArgument,
                "a flag of the model, the cache or speculation does not change a running server: "
                "leave it out, or give --local in place of --url");
  }
  TRY_ASSIGN(HttpClient client, options.server.client());
  const auto models = list_models(client, kAskTime);
  if (!models) {
    if (must_be_remote) return std::unexpected<Error>(models.error());
    // Without a server, or with one of another kind, there is nothing to say.
    const ErrorCode code = models.error().code;
    if (code != ErrorCode::kNotFound && code != ErrorCode::kCorrupt) {
      log::info("{} is loaded here, because the server at {} is of no use: {}", options.model.model,
                client.url().text(), models.error().message);
    }
    return nullptr;
  }
  const std::string& name = options.model.name.empty() ? options.model.model : options.model.name;
  const auto model = find_model(*models, name);
  if (!model) {
    if (must_be_remote) return not_served(name, client, *models);
    return nullptr;
  }
  ModelCard card = card_of(client, *model, kAskTime);
  return std::make_unique<RemoteGenerator>(std::move(client), std::move(card));
}

}  // namespace kvik
