#pragma once

#include <memory>

#include "hub/hub_options.h"
#include "hub/model_fit.h"
#include "service/model_library.h"

namespace kvik {

// Makes the library of the models in the cache folders of `options`, which downloads from Hugging
// Face, Ollama's registry and any URL. check_fit: refuses models that do not fit (kExhausted);
// empty: downloads any.
std::unique_ptr<ModelLibrary> make_model_library(HubOptions options, FitCheck check_fit);

}  // namespace kvik
