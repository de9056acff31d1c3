#pragma once

#include <cstdint>
#include <string>

#include "base/json/json_object.h"
#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/config.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

inline constexpr uint64_t kRankPooling = 4;  // "pooling_type" of a model with a classifier

// Reads what config.json states of an encoder: token types, layer norms and, of a model for
// sequence classification, its labels. Returns the number of unused rows at the beginning of the
// table of positions.
Result<uint32_t> read_encoder(const JsonObject& config, const FamilyFolder& of, GgufKeys& keys,
                              Metadata& metadata);

// Adds the pooling that modules.json of sentence-transformers names, unless config.json has named a
// classifier. Errors: kUnsupported for a module or a pooling that is not implemented.
Result<void> add_pooling(const std::string& folder, const FolderConfig& config, Metadata& metadata);

}  // namespace kvik::hf
