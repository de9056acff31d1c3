#pragma once

#include <boost/json/value.hpp>
#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Keys of DeepSeek V4, in the form of published folders and in that of Transformers.

// Gives keys the names and values that other folders have: one RoPE, that of layers with entries,
// beside the base of the others; numbers of layers in place of lists of their MLPs.
Result<boost::json::value> with_entry_keys(boost::json::value stated);

// Reads how many tokens the entries of each layer have.
Result<void> read_entry_layers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

}  // namespace kvik::hf
