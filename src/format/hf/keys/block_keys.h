#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json/json_object.h"
#include "base/result.h"

namespace kvik::hf {

// Gives the keys that Nemotron 3 Puzzle states in a "block_configs" for each layer the form that
// other models have: a letter per layer, and values for all layers. Of sizes that differ between
// layers, the value for all is the largest, and sizes_of_blocks() returns all of them. The two
// blocks of "mtp_block_configs", attention and experts, are an MTP layer, which has an entry in
// lists after those of the layers. Errors: kUnsupported for other keys that differ and other blocks
// of an MTP layer, kCorrupt for impossible values.
Result<boost::json::value> with_block_keys(boost::json::value config);

// Returns a size for each layer and the MTP layer, 0 for layers without it; empty if it is the same
// for all. The sizes of experts are returned in any case if there is an MTP layer.
Result<std::vector<uint64_t>> sizes_of_blocks(const JsonObject& config, std::string_view key);

}  // namespace kvik::hf
