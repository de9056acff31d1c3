#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/windows.h"

namespace kvik {

// A part of a piece of text.
struct Match {
  size_t begin;
  size_t end;
};

// The first match at or behind `from` < piece.size(); empty, at the piece's end, where there is
// none. Takes constant time for a place where it does not match, and time in the length of what it
// matches where it does.
using Matcher = Match (*)(std::span<const Char> piece, size_t from);

// Cuts text into the words that BPE merges within, as the model's training did. Each rule is one
// expression of the original, written by hand: it cuts every piece that those before it left into
// its matches and what lies between them.
struct PreTokenizer {
  // What becomes of a match: one word, or words of three characters counted from its end, the way
  // large numbers are written.
  enum class Cut { kWhole, kThrees };
  struct Rule {
    Rule(Matcher matcher, Cut how = Cut::kWhole) : match(matcher), cut(how) {}
    Matcher match;
    Cut cut;
  };

  std::string_view name;  // of tokenizer.ggml.pre
  std::vector<Rule> rules;
  bool whole_words_first = false;  // a word that is a token is that token, whatever the merges say
  bool adds_bos = false;           // unless the file says otherwise

  WindowEnds window_ends = WindowEnds::kBlanks;

  // The words of `text`, which is shorter than 4 GiB, in order; joined they are the text.
  std::vector<std::string_view> split(std::string_view text) const;

  // Calls take(word) for each of them, window by window.
  template <class Take>
  void each_word(std::string_view text, const Take& take) const {
    while (!text.empty()) {
      const std::string_view window = text.substr(0, n_window_bytes(text, window_ends));
      for (const std::string_view word : split(window)) take(word);
      text.remove_prefix(window.size());
    }
  }
};

// Error: kUnsupported, naming those that are supported.
Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name);

// All of them, in no order.
std::span<const PreTokenizer> pre_tokenizers();

}  // namespace kvik
