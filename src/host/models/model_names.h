#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/models/model_spec.h"

namespace kvik {

// Returns the model that a request means: by its name or an alias, either with ":latest", or by
// MODEL:ADAPTER. Errors: kNotFound, which lists the names.
Result<const ModelSpec*> find_model(const std::vector<const ModelSpec*>& models,
                                    std::string_view requested);

}  // namespace kvik
