#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "model/adapter.h"

namespace kvik {

// A model that is loaded, and what open_model() opens it by.
struct BaseModel {
  const Model& model;
  Backend& backend;
  const std::string& spec;
};

// Reads and packs an adapter, and what it needs of the base's weights. Errors: those of
// Adapter::load(), and of open_model() where they are needed.
Result<std::unique_ptr<Adapter>> load_adapter(AdapterSource& source, const BaseModel& base);

// The same of what "PATH[:SCALE]" names. Errors: also those of parse_adapter_spec() and
// open_adapter().
Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& spec, const BaseModel& base);

}  // namespace kvik
