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

// Settings from tokenizer_config.json and other files next to a tokenizer.json.
struct TokenizerConfig {
  std::optional<std::string> bos_token = {}, eos_token = {};  // their texts
  std::optional<bool> adds_bos = {}, adds_eos = {};           // override post_processor
  std::vector<uint64_t> end_ids = {};  // that end an answer; those that are no token
                                       // are left out
  std::optional<uint32_t> n_vocab =
      {};  // of the model: ids up to there are tokens, later ones are not
  std::string chat_template = {};
};

// Reads the keys written by format/hf/vocabulary_files.h. Errors: kCorrupt.
Result<TokenizerConfig> tokenizer_config_of(const Metadata& metadata);

// Reads a tokenizer.json of Hugging Face: normalizer, added tokens, pre_tokenizer, model (BPE,
// Unigram, WordPiece), decoder, and the tokens that post_processor adds. Truncation, padding and
// dropout are ignored.
//
// Errors: kCorrupt if the JSON is invalid, a value is missing or has another type, a merge, an id
// or a regular expression is wrong, or the model has a different number of tokens; kUnsupported for
// unknown types of parts.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config);

}  // namespace kvik
