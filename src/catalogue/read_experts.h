#pragma once

#include <optional>

#include "base/result.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Reads the experts of a model, or of a layer if the keys are those of a layer
// (KeyReader::of_layer()). Returns std::nullopt if it has none. Errors: kUnsupported for a family
// without experts or an unknown kind, kCorrupt for impossible sizes.
Result<std::optional<ExpertsConfig>> read_experts(const KeyReader& keys, const Family& family,
                                                  const ModelConfig& c);

// Checks the entries that lists of sizes have for a layer without experts. Such an entry may be 0.
Result<void> check_absent_experts(const KeyReader& keys);

}  // namespace kvik
