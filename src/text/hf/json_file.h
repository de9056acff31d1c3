#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/hf/normalizer.h"
#include "text/hf/pre_tokenizer_step.h"
#include "text/hf/token_decoder.h"
#include "text/hf/tokenizer_json.h"
#include "text/hf/tokenizer_object.h"
#include "text/hf/word_model.h"
#include "text/vocabulary.h"

namespace kvik::hf {

// The parts of a tokenizer.json that convert text to ids.
struct JsonParts {
  Normalizer normalizer;           // may be null
  PreTokenizerStep pre_tokenizer;  // may be null
  std::unique_ptr<WordModel> model;
  TokenDecoder spelling;
  std::vector<TokenId>
      added_after_normalization;  // user-defined tokens to be found after normalization
};

// A parsed tokenizer.json.
struct JsonFile {
  // Reads a tokenizer.json. Returns the errors of read_tokenizer_json().
  static Result<JsonFile> read(std::string_view json, const TokenizerConfig& config);

  std::unique_ptr<const boost::json::value> json;  // the whole file, to which model_fields refers
  JsonObject model_fields;                         // the value of "model"
  JsonParts parts;
  Vocabulary vocabulary;  // tokens of the model, the added tokens and the post-processor
};

}  // namespace kvik::hf
