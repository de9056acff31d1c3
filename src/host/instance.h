#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_thread.h"
#include "host/adapter_shelf.h"
#include "host/load_model.h"
#include "service/service.h"

namespace kvik {

// What clients are told of a model.
struct ServingOptions {
  ChatFormatOptions chat = {};
  std::vector<std::string> aliases = {};  // further names; "*": any
  AdapterOptions adapters = {};
};

// A model that answers: backend, vocabulary, an engine on its own thread and the service on top,
// from the moment it is made until it is destroyed. Any thread may call the service; the others are
// for whoever made it.
class Instance {
 public:
  // The type of the pages and the context are the loaded model's, all else is `options`'; what
  // those borrow outlives the instance. Where no model is named, the loaded adapter answers.
  // Errors: those of Engine::create() and AdapterShelf::add_named().
  static Result<std::unique_ptr<Instance>> create(LoadedModel loaded, EngineOptions options,
                                                  const ServingOptions& serving = {});

  Service& service() { return *service_; }
  EngineThread& engine() { return *engine_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  Instance() = default;

  // In the order in which they borrow from each other.
  SteadyClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<EngineThread> engine_;
  std::optional<AdapterShelf> adapters_;
  std::optional<Service> service_;
};

}  // namespace kvik
