#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_object.h"
#include "base/result.h"

namespace kvik::hf {

// Words of "layer_types".
inline constexpr const char* kLinear = "linear_attention";
inline constexpr const char* kFull = "full_attention";

// Reads a list with a known word per layer. Errors: kUnsupported.
Result<std::vector<std::string>> layer_words(const JsonObject& config, std::string_view key,
                                             uint32_t n_layers,
                                             const std::vector<std::string_view>& known);

}  // namespace kvik::hf
