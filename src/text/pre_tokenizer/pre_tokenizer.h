#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/windows.h"

namespace kvik {

// A range of a piece of text, in characters.
struct Match {
  size_t begin;
  size_t end;
};

// Returns the first match at or after `from` < piece.size(). If there is none, the match is empty
// and at the end of the piece. Takes constant time at a position without a match, otherwise time
// linear in the length of the match.
using Matcher = Match (*)(std::span<const Char> piece, size_t from);

// Splits text into the words within which BPE merges, as in the training of the model. Each rule
// implements one expression of the original tokenizer. It splits every piece that the previous
// rules left into its matches and the text between them.
struct PreTokenizer {
  // kWhole: a match is one word. kGroupsOfThree: a match is split into groups of three characters,
  // counted from its end as in large numbers.
  enum class Cut { kWhole, kGroupsOfThree };
  struct Rule {
    Rule(Matcher matcher, Cut how = Cut::kWhole) : match(matcher), cut(how) {}
    Matcher match;
    Cut cut;
  };

  std::string_view name;  // value of tokenizer.ggml.pre
  std::vector<Rule> rules;
  // whether a word that is a token becomes this token without merging
  bool whole_words_first = false;
  bool adds_bos = false;  // default for files without a value

  WindowEnds window_ends = WindowEnds::kBlanks;

  // Returns the words of `text`, which is shorter than 4 GiB. Their concatenation is the text.
  std::vector<std::string_view> split(std::string_view text) const;

  // Calls take(word) for each word. Memory is bounded, because the text is split one window at a
  // time.
  template <class Take>
  void each_word(std::string_view text, const Take& take) const {
    while (!text.empty()) {
      const std::string_view window = text.substr(0, n_window_bytes(text, window_ends));
      for (const std::string_view word : split(window)) take(word);
      text.remove_prefix(window.size());
    }
  }
};

// Returns the pre-tokenizer with this name. Error: kUnsupported with the list of supported names.
Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name);

// Returns all pre-tokenizers in no particular order.
std::span<const PreTokenizer> pre_tokenizers();

}  // namespace kvik
