#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/kv_budget.h"
#include "support/recording_sink.h"
#include "support/tiny_model.h"

namespace kvik {

// Advances by one millisecond each time it is read.
class TickingClock final : public Clock {
 public:
  TimePoint now() const override { return now_ += std::chrono::milliseconds(1); }

 private:
  mutable TimePoint now_{};
};

// For tests that count steps.
inline constexpr SpeculationOptions kNoSpeculation{.mode = SpeculationOptions::Mode::kOff};

struct TinyEngineOptions {
  TinyModelOptions model = {};
  uint32_t n_pages = 64;  // for each layer group
  KvType kv_type = KvType::kBF16;
  uint32_t n_ctx_max = 0;
  uint32_t max_step_tokens = 128;
  uint32_t max_running = 16;
  uint32_t max_queue = 1024;
  std::vector<TierPlace> tiers = {};
  SpeculationOptions speculation = {};
  std::string draft = {};  // draft model, in the syntax of TinyModelOptions::name; empty: none
  Sharing sharing = Sharing::kAll;
};

// An engine with a tiny model and a budget counted in pages. The backend outlives the engine.
struct TinyEngine {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<Engine> engine;
};

inline EngineOptions engine_options(const TinyEngineOptions& options, const TinyModel& tiny) {
  const KvLayout layout = kv_layout(tiny.model->config(), options.kv_type, *tiny.backend);
  const uint64_t page_budget = uint64_t{options.n_pages} * layout.n_groups() * layout.page_bytes;
  uint64_t budget = page_budget;
  // Open pages are stored beside the pages, for as many sequences as have open pages within this
  // budget.
  const uint32_t n_running = std::min(options.max_running, options.max_step_tokens);
  for (uint32_t n = 1; layout.has_open_pages(); ++n) {
    budget = page_budget + n * layout.open_slot_bytes();
    if (n_slots(layout, budget, n_running) <= n) break;
  }
  budget = TierLink::budget_for(options.tiers, layout.page_bytes, budget);
  return {.kv_budget_bytes = budget,
          .kv_type = options.kv_type,
          .n_ctx_max = options.n_ctx_max,
          .max_step_tokens = options.max_step_tokens,
          .max_running = options.max_running,
          .max_queue = options.max_queue,
          .tiers = options.tiers,
          .speculation = options.speculation,
          .sharing = options.sharing};
}

inline TinyEngine make_tiny_engine(const TinyEngineOptions& options, TinyModel tiny,
                                   std::unique_ptr<Clock> clock) {
  const EngineOptions all = engine_options(options, tiny);
  std::unique_ptr<Model> draft;
  if (!options.draft.empty()) {
    const auto source = make_synthetic("synthetic:" + options.draft);
    CHECK(source.has_value());
    draft = std::move(*Model::load(**source, *tiny.backend, nullptr));
  }
  auto engine = Engine::create(std::move(tiny.model), *tiny.backend, all, *clock, std::move(draft));
  CHECK(engine.has_value());
  return {std::move(tiny.backend), std::move(clock), std::move(*engine)};
}

// Steps an engine on the test's own thread.
class EngineRig {
 public:
  explicit EngineRig(const TinyEngineOptions& options = {})
      : EngineRig(options, load_tiny(options.model)) {}
  EngineRig(const TinyEngineOptions& options, TinyModel tiny)
      : parts_(make_tiny_engine(options, std::move(tiny), std::make_unique<TickingClock>())) {}

  std::shared_ptr<RecordingSink> submit(Request request,
                                        RecordingSink::OnToken on_token = nullptr) {
    CHECK(engine().check(request).has_value());
    auto sink = std::make_shared<RecordingSink>(std::move(on_token));
    engine().submit(RequestId{++last_id_}, std::move(request), sink);
    return sink;
  }
  RequestId last_id() const { return RequestId{last_id_}; }

  void run() {
    while (engine().step()) {
    }
  }
  // Submits a request and steps until no work is left.
  std::shared_ptr<RecordingSink> run(Request request, RecordingSink::OnToken on_token = nullptr) {
    auto sink = submit(std::move(request), std::move(on_token));
    run();
    return sink;
  }

  Engine& engine() { return *parts_.engine; }
  PageCounts pages() { return engine().snapshot().pages; }

 private:
  TinyEngine parts_;
  uint64_t last_id_ = 0;
};

inline Request greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

inline Request seeded_request(std::vector<TokenId> prompt, uint32_t max_tokens, uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.seed = seed;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace kvik
