#pragma once

#include <optional>
#include <string_view>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Returns the pooling that a file states; std::nullopt if it states none. Errors: kUnsupported for
// an unknown one.
Result<std::optional<Pooling>> read_pooling(const KeyReader& keys);

// Keys of a reranker, and the labels of its classifier's rows.
inline constexpr const char* kLabelsKey = "classifier.output_labels";
inline constexpr const char* kRerankPromptKey = "tokenizer.chat_template.rerank";
inline constexpr std::string_view kYesAndNo[] = {"yes", "no"};

// Returns the reranker that a model with a classifier is; std::nullopt if its labels are others
// than "yes" and "no". Without a prompt of its own it has that of Qwen3-Reranker. Errors: kCorrupt
// for a prompt without both texts.
Result<std::optional<RerankerConfig>> read_reranker(const Metadata& metadata,
                                                    const KeyReader& keys);

// Reads what only encoders have into c.encoder, which has the features of the family, and
// c.pooling. Errors: those of read_config().
Result<void> read_encoder(const Metadata& metadata, const KeyReader& keys, ModelConfig& c);

}  // namespace kvik
