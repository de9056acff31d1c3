#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/vocabulary/vocabulary_trie.h"

namespace kvik {

// Ends what a small model would repeat up to max_tokens in an answer of JSON: the same piece of a
// string, the same items of an array, the same levels of nesting.
//
// An answer loops once its last 384 bytes repeat a piece of up to 96 bytes; after a first loop 96
// bytes suffice. A string that loops must end. From the first loop on, arrays and objects end as
// soon as the grammar allows it. Depends on the answer alone, so that a batch, a
// preemption or a speculation does not change it. One thread.
class LoopGuard {
 public:
  explicit LoopGuard(std::shared_ptr<const grammar::VocabularyTrie> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

  // Reads the bytes of one token.
  void read(std::string_view bytes);
  // Forgets the last tokens, up to kMaxRollBack.
  void roll_back(uint32_t n_tokens);

  bool is_looping() const { return is_looping_; }
  // narrow() may change a mask.
  bool is_active() const { return is_looping_ || has_looped_; }
  // Removes the tokens that would continue the loop from a mask of allowed tokens.
  void narrow(std::span<uint64_t> mask) const;

 private:
  struct Token {
    uint32_t n_bytes;
    bool had_looped;  // before it
  };

  void look();

  std::shared_ptr<const grammar::VocabularyTrie> vocabulary_;  // shared with the grammar
  std::string text_;                                           // the end of the answer
  std::vector<Token> tokens_;                                  // the newest
  bool has_looped_ = false, is_looping_ = false;
};

}  // namespace kvik
