#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace kvik {

// What stands beside a tokenizer.json, in tokenizer_config.json.
struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token;  // their texts
  std::string chat_template;
};

// The tokenizer that a tokenizer.json of Hugging Face describes: normalizer, added tokens,
// pre_tokenizer, model (BPE, Unigram, WordPiece), decoder, and what post_processor frames a text
// with. Truncation, padding and dropout are for training and left out.
// Errors: kCorrupt where it is no JSON, a value is missing or of another type, a merge, an id or a
// regex is wrong (THREATS 25); kUnsupported for types of parts that are not known.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config);

}  // namespace kvik
