#pragma once

#include <string>

#include "base/result.h"
#include "hub/stores/model_store.h"

namespace kvik {

// The model that an argument MODEL means.
struct ResolvedModel {
  std::string path;       // argument of open_model()
  std::string name = {};  // stored or short name; empty for a path, demo and synthetic models
};

// Resolves an argument MODEL: an existing path, demo and synthetic:PRESET stay as they are, a
// stored or short name becomes its file or folder. Opens no connection. Errors: kNotFound for
// anything else, with the sentence of unknown_model().
Result<ResolvedModel> resolve_model(ModelStore& store, const std::string& name);

// Returns whether an argument is an existing path, demo or synthetic:PRESET.
bool is_local_model(const std::string& name);

// Returns whether an argument names a model with its origin (hf.co/…, ollama://…, https://…), so
// that commands download it if it is not stored.
bool has_origin(const ModelStore& store, const std::string& name);

// Returns the error of an argument that is neither a path nor a stored model: it says what was
// tried and the `kvik pull` that downloads it.
Error unknown_model(const std::string& name);

}  // namespace kvik
