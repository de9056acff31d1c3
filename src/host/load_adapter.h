#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "model/adapter.h"

namespace kvik {

// A loaded model, and the argument of open_model() that it was loaded with.
struct BaseModel {
  const Model& model;
  Backend& backend;
  const std::string& spec;
};

// Loads and packs an adapter, and the weights of the base model that it needs. Errors: those of
// Adapter::load(), and of open_model() if such weights are needed.
Result<std::unique_ptr<Adapter>> load_adapter(AdapterSource& source, const BaseModel& base);

// Loads the adapter "PATH[:SCALE]". Errors: also those of parse_adapter_spec() and open_adapter().
Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& spec, const BaseModel& base);

}  // namespace kvik
