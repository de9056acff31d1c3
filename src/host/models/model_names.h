#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/models/model_spec.h"

namespace kvik {

// Returns the index of the model that a request means: by its name or an alias, either with
// ":latest", or by MODEL:ADAPTER. Errors: kNotFound, which lists the names.
Result<size_t> find_model(const std::vector<ModelSpec>& models, std::string_view requested);

}  // namespace kvik
