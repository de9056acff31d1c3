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
#include "service/service.h"

namespace kvik {

// Options of serving a model.
struct ServingOptions {
  ChatFormatOptions chat = {};
  std::vector<std::string> aliases = {};  // further names; "*": any
  AdapterOptions adapters = {};
};

// A model being served: backend, tokenizer, an engine on its own thread and the service, from
// construction to destruction. Any thread may call the service; the other functions are for the
// owner.
class Instance {
 public:
  // Creates an engine with the KV type and context of the loaded model and all other values of
  // `options`. Objects that `options` borrows must outlive the instance. Requests that name no
  // model use the loaded adapter. Errors: those of Engine::create() and
  // LocalAdapterRegistry::add_named().
  static Result<std::unique_ptr<Instance>> create(LoadedModel loaded, EngineOptions options,
                                                  const ServingOptions& serving = {});

  Service& service() { return *service_; }
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
