#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik {

// What the patterns of pre-tokenizers tell apart: \p{L}, \p{N}, \s and the rest.
enum class CharClass : uint8_t { kLetter, kNumber, kBlank, kOther };

// A character of the text; a byte that is not UTF-8 is one of its own, of class kOther.
struct Char {
  size_t begin;  // its first byte
  char32_t code_point;
  CharClass char_class;
};

// The end of the match that begins at `at` < piece.size(), or `at` where none does. Takes constant
// time where it does not match, and time in the length of what it matches where it does.
using Matcher = size_t (*)(std::span<const Char> piece, size_t at);

// Cuts text into the words that BPE merges within, as the model's training did. Each matcher is one
// expression of the original, written by hand: it cuts every piece that those before it left into
// its matches and what lies between them.
struct PreTokenizer {
  std::string_view name;  // of tokenizer.ggml.pre
  std::vector<Matcher> matchers;
  bool whole_words_first = false;  // a word that is a token is that token, whatever the merges say
  bool adds_bos = false;           // unless the file says otherwise

  // The words of `text` in order; joined they are the text.
  std::vector<std::string_view> split(std::string_view text) const;
};

// Error: kUnsupported, naming those that are supported.
Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name);

}  // namespace kvik
