#pragma once

#include <boost/json/value.hpp>
#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads which layers have an indexer of their own and which share that of an earlier layer (GLM 5):
// as a list of layers, as a pattern, or by the distance of layers with an indexer.
Result<void> read_shared_indexers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

// Gives the keys of MiniMax's folders for the indexers of MiniMax M3, "sparse_attention_config",
// the form that they have in Transformers. Errors: kUnsupported for what no published model has.
Result<boost::json::value> with_sparse_keys(boost::json::value config);
// Reads which layers of MiniMax M3 have an indexer.
Result<void> read_sparse_layers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

}  // namespace kvik::hf
