#include "main/load_for_one.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "host/draft_head.h"
#include "host/load_draft.h"

namespace kvik {
namespace {

// States for more sequences would take memory from the pages of the only one.
constexpr uint32_t kOneSequence = 1;

}  // namespace

Result<LoadedForOne> load_for_one(ModelOptions& options, const SpeculationFlags& speculation,
                                  const std::vector<TierPlace>& tiers) {
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(auto source, open_model(options));
  TRY_ASSIGN(const std::string draft, add_draft_head({.draft = speculation.draft,
                                                      .model = options.model,
                                                      .speculates = speculation.options.mode !=
                                                                    SpeculationOptions::Mode::kOff},
                                                     *backend, source));
  const auto footprint = Footprint::of(*source, *backend);
  EngineOptions engine{.kv_type = options.kv_type,
                       .max_running = kOneSequence,
                       .tiers = tiers,
                       .speculation = speculation.options};
  uint64_t max_kv_bytes = UINT64_MAX;
  if (footprint && options.chooses_ctx) {
    const auto [choice, sentence] =
        choose_memory(options, engine, {.draft = draft}, *footprint, *backend);
    if (choice.n_ctx < footprint->config().n_ctx_train) log::info("{}", sentence);
    options.n_ctx = choice.n_ctx;
    max_kv_bytes = choice.kv_bytes;
  }
  TRY_ASSIGN(LoadedModel loaded, load_model(options, std::move(source), std::move(backend)));
  const uint64_t kv_bytes = loaded.kv().budget(loaded.n_ctx, kOneSequence, tiers);
  engine.kv_budget_bytes = std::min(kv_bytes, max_kv_bytes);
  if (!draft.empty()) TRY(load_draft(draft, loaded, kOneSequence));
  return LoadedForOne{std::move(loaded), std::move(engine)};
}

}  // namespace kvik
