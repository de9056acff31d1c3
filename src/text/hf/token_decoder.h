#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/hf/regex.h"
#include "text/hf/tokenizer_object.h"

namespace kvik::hf {

// "decoder" of a tokenizer.json: returns the bytes of a single token. Effects across tokens are
// handled by Detokenizer (bytes of one character) or are not supported (WordPiece's removal of
// spaces before punctuation).
class TokenDecoder {
 public:
  // Reads a decoder. Errors: kUnsupported for an unknown type, kCorrupt.
  static Result<TokenDecoder> read(const boost::json::value* decoder);

  std::string spell(std::string_view token) const;

  bool strips_leading_space() const { return strips_leading_blank_; }
  bool has_byte_tokens_decoder() const { return knows_byte_tokens_; }

 private:
  Result<void> add(const boost::json::value& decoder, const std::string& path);

  struct Replacement {
    Regex what;
    std::string content;
  };
  std::vector<Replacement> replacements_;
  bool is_byte_level_ = false;
  bool strips_leading_blank_ = false;
  bool knows_byte_tokens_ = false;
  std::optional<std::string> word_piece_prefix_;  // prefix of tokens that continue a word
  std::string word_suffix_;                       // suffix of tokens that end a word
};

}  // namespace kvik::hf
