#pragma once

#include "format/model_source.h"

namespace kvik {

// Multiplies the factors that the keys of Falcon-H1 state (from its config.json) into the weights,
// which become f32, and drops the keys. Other programs expect weights that include them. Models
// without such keys stay unchanged. Errors: those of config_of().
Result<void> fold_factors(ModelSource& source);

}  // namespace kvik
