#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace kvik {

// The settings in tokenizer_config.json and other files next to a tokenizer.json.
struct TokenizerConfig {
  std::optional<std::string> bos_token = {}, eos_token = {};  // texts of the tokens
  std::optional<bool> adds_bos = {}, adds_eos = {};           // override "post_processor"
  // ids of tokens that end an answer; ids that are not a token are ignored
  std::vector<uint64_t> end_ids = {};
  // size of the model's vocabulary; ids at or above it are not tokens
  std::optional<uint32_t> n_vocab = {};
  std::string chat_template = {};
};

// Reads the keys that format/hf/vocabulary_files.h describes. Error: kCorrupt.
Result<TokenizerConfig> tokenizer_config_of(const Metadata& metadata);

// Reads a Hugging Face tokenizer.json: normalizer, added tokens, pre_tokenizer, model (BPE,
// Unigram, WordPiece), decoder, and the tokens that post_processor adds. Truncation, padding and
// dropout are ignored.
//
// Errors: kCorrupt if the JSON is invalid, a value is missing or has another type, a merge, an id
// or a regular expression is wrong, or the model has a different number of tokens; kUnsupported for
// unknown types of parts.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config);

}  // namespace kvik
