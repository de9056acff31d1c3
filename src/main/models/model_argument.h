#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace kvik {

// Handling of a name with its origin (hf.co/…, ollama://…, https://…) that is not stored.
enum class IfNotStored { kDownload, kKeep };

// Replaces an argument MODEL that is a stored name by the path of its file or folder, and sets
// `stored_name`, unless that is null. Any other name stays as it is. Errors: those of
// download_model().
Result<void> resolve_model_argument(std::string& model, std::string* stored_name,
                                    IfNotStored if_not_stored);

// Calls `use` with the path of a model. If the model is on a hub and not stored, these are sparse
// files with the headers only, which are removed afterwards. Errors: those of `use` and of
// with_remote_headers().
Result<void> with_headers(const std::string& model,
                          const std::function<Result<void>(const std::string& path)>& use);

}  // namespace kvik
