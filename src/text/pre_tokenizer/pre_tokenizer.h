#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/windows.h"

namespace kvik {

// A range of a piece of text.
struct Match {
  size_t begin;
  size_t end;
};

// The first match at or after `from` < piece.size(); empty and at the end of the piece if there is
// none. Constant time at a position without a match, otherwise linear in the length of the match.
using Matcher = Match (*)(std::span<const Char> piece, size_t from);

// Splits text into the words within which BPE merges, as in the model's training. Each rule
// implements one expression of the original: it splits every piece left by the previous rules into
// its matches and the text between them.
struct PreTokenizer {
  // How a match is split: not at all, or into groups of three characters counted from its end, as
  // in large numbers.
  enum class Cut { kWhole, kThrees };
  struct Rule {
    Rule(Matcher matcher, Cut how = Cut::kWhole) : match(matcher), cut(how) {}
    Matcher match;
    Cut cut;
  };

  std::string_view name;  // value of tokenizer.ggml.pre
  std::vector<Rule> rules;
  bool whole_words_first = false;  // a word that is a token becomes that token without merging
  bool adds_bos = false;           // default if the file has no value

  WindowEnds window_ends = WindowEnds::kBlanks;

  // The words of `text`, which is shorter than 4 GiB, in order; concatenated they are the text.
  std::vector<std::string_view> split(std::string_view text) const;

  // Calls take(word) for each word, one window at a time.
  template <class Take>
  void each_word(std::string_view text, const Take& take) const {
    while (!text.empty()) {
      const std::string_view window = text.substr(0, n_window_bytes(text, window_ends));
      for (const std::string_view word : split(window)) take(word);
      text.remove_prefix(window.size());
    }
  }
};

// Error: kUnsupported, listing the supported names.
Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name);

// All pre-tokenizers, in no particular order.
std::span<const PreTokenizer> pre_tokenizers();

}  // namespace kvik
