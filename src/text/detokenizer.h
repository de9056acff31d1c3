#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace kvik {

// Converts a stream of ids to text without splitting characters: the bytes of an incomplete UTF-8
// sequence are held back until it is complete or invalid. One sequence; not thread-safe.
class Detokenizer {
 public:
  // `tokenizer` must outlive this object. kStart: the first token begins the text, so the space
  // that tokenization added is removed. kContinuation: the text continues a prompt.
  enum class Position { kStart, kContinuation };
  Detokenizer(const Tokenizer& tokenizer, Position position, Tokenizer::Special special);

  // Returns the text that this token completes, which may be empty. Invalid UTF-8 becomes U+FFFD.
  std::string push(TokenId id);

  // Returns U+FFFD for the bytes that are still held back; empty if there are none.
  std::string finish();

  // Returns whether bytes are held back.
  bool is_holding() const { return !pending_.empty(); }

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::Special special_;
  bool strip_blank_;
  std::string pending_;
};

}  // namespace kvik
