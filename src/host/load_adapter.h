#pragma once

#include <memory>
#include <string>

#include "backend/ops.h"
#include "base/result.h"
#include "model/adapter.h"

namespace kvik {

// Reads and packs what "PATH[:SCALE]" names, for a model that is loaded. Errors: those of
// parse_adapter_spec(), open_adapter() and Adapter::load().
Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& spec, const Model& model,
                                                    Backend& backend);

}  // namespace kvik
