#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_thread.h"
#include "host/load_model.h"
#include "host/local_adapter_registry.h"
#include "host/model_instance.h"
#include "service/service.h"

namespace kvik {

// A model being served: backend, tokenizer, an engine on its own thread and the service, from
// construction to destruction. Any thread may call the service; the other functions are for the
// owner.
class Instance final : public ModelInstance {
 public:
  // Creates an engine with the KV type and context of the loaded model and all other values of
  // `options`. Objects that `options` borrows must outlive the instance. Requests that name no
  // model use the loaded adapter. Errors: those of Engine::create() and
  // LocalAdapterRegistry::add_named().
  static Result<std::unique_ptr<Instance>> create(LoadedModel loaded, EngineOptions options,
                                                  const ServingOptions& serving = {});

  Service& service() override { return *service_; }
  bool drain(Duration at_most) override { return engine_->drain(at_most); }
  uint64_t probe_progress() override { return engine_->probe_progress(); }
  EngineThread& engine() { return *engine_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  Instance() = default;

  // Members are in the order in which they borrow from each other.
  SteadyClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<EngineThread> engine_;
  std::optional<LocalAdapterRegistry> adapters_;
  std::optional<Service> service_;
};

}  // namespace kvik
