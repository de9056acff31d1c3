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

// What stands beside a tokenizer.json, in tokenizer_config.json and other files.
struct TokenizerConfig {
  std::optional<std::string> bos_token = {}, eos_token = {};  // their texts
  std::optional<bool> adds_bos = {}, adds_eos = {};           // whatever post_processor says
  std::vector<uint64_t> end_ids = {};  // that end an answer; those that are no token
                                       // are left out
  std::optional<uint32_t> n_vocab =
      {};  // of the model: ids up to there are tokens, later ones are not
  std::string chat_template = {};
};

// What the keys say that format/hf/vocabulary_files.h writes. Errors: kCorrupt.
Result<TokenizerConfig> tokenizer_config_of(const Metadata& metadata);

// The tokenizer that a tokenizer.json of Hugging Face describes: normalizer, added tokens,
// pre_tokenizer, model (BPE, Unigram, WordPiece), decoder, and what post_processor frames a text
// with. Truncation, padding and dropout are for training and left out.
// Errors: kCorrupt where it is no JSON, a value is missing or of another type, a merge, an id or a
// regex is wrong (THREATS 25), or the model has another number of tokens; kUnsupported for types of
// parts that are not known.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config);

}  // namespace kvik
