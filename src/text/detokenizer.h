#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace kvik {

// Ids → text as they come, never cutting a character: bytes of an unfinished UTF-8 sequence are
// held back until it is whole or can no longer become so. One sequence, one thread.
class Detokenizer {
 public:
  // `tokenizer` outlives this. `at_start`: the first token begins the text (its dummy blank goes),
  // as opposed to continuing a prompt.
  enum class Position { kStart, kContinuation };
  Detokenizer(const Tokenizer& tokenizer, Position position, Tokenizer::Special special);

  // Text that became whole with this token; may be empty. Bytes that can not be UTF-8 become
  // U+FFFD.
  std::string push(TokenId id);

  // What was held back, replaced by U+FFFD; empty where nothing was.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::Special special_;
  bool strip_blank_;
  std::string pending_;
};

}  // namespace kvik
