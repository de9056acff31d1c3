#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "format/hf/config.h"

namespace kvik::hf {

inline constexpr const char* kRerankerFamily = "qwen3";
// The module of sentence-transformers that scores by the logits of two tokens.
inline constexpr const char* kLogitScore = "LogitScore";

// Gives the folder of a Qwen3-Reranker the keys of its GGUF files, and FolderConfig::score_tokens.
// Its config.json is that of a model that generates: it is recognized by a module LogitScore of
// sentence-transformers, by the keys that vLLM needs, by the heading of its README.md, or by the
// name of the folder. The vocabulary must have been added to the metadata of `config`. Errors:
// kCorrupt for a vocabulary without "yes" and "no", kUnsupported for a LogitScore of other tokens.
Result<void> add_reranker(const std::string& folder, std::string_view config_json,
                          FolderConfig& config);

}  // namespace kvik::hf
