#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "host/load_model.h"
#include "host/local_adapter_registry.h"
#include "service/chat_format.h"
#include "service/service_api.h"

namespace kvik {

// Options of serving a model.
struct ServingOptions {
  ChatFormatOptions chat = {};
  std::vector<std::string> aliases = {};  // further names; "*": any
  AdapterOptions adapters = {};
};

// A model being served, which generates text or is an encoder. Any thread may call the service; the
// other functions are for the owner.
class ModelInstance {
 public:
  virtual ~ModelInstance() = default;
  virtual ServiceApi& service() = 0;
  // Like those of EngineThread.
  virtual bool drain(Duration at_most) = 0;
  virtual uint64_t probe_progress() = 0;
};

// Creates an Instance, or for an encoder an EncoderInstance. Errors: theirs.
Result<std::unique_ptr<ModelInstance>> serve_loaded(LoadedModel loaded,
                                                    const EngineOptions& options,
                                                    const ServingOptions& serving);

// Returns what a model's card says about its weights and files.
ModelCard card_of(const LoadedModel& loaded, const ServingOptions& serving);

}  // namespace kvik
