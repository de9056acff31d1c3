#pragma once

#include <string>

#include "base/result.h"
#include "hub/model_fit.h"

namespace kvik {

// Plans a model, of which only the headers need to be there, on the CPU of this machine: with a KV
// cache for one user of 4096 tokens, or of the trained context if that is less. Errors: those of
// open_model() and Footprint::of(). A FitCheck.
Result<ModelFit> fit_of_model(const std::string& path);

}  // namespace kvik
