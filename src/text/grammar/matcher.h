#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "text/grammar/grammar.h"
#include "text/grammar/vocabulary/vocabulary_trie.h"

namespace kvik::grammar {

class Workshop;
class Matcher;

// A grammar for the tokens of a vocabulary, with all masks that were made so far. Any thread.
class Constraint : public std::enable_shared_from_this<Constraint> {
 public:
  static std::shared_ptr<Constraint> make(Grammar grammar,
                                          std::shared_ptr<const VocabularyTrie> vocabulary);
  ~Constraint();

  // At the beginning of a text.
  Matcher start();

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }

 private:
  friend class Matcher;
  struct Shared;
  Constraint(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary);
  // A workshop with room left, in the place of one that has none.
  std::shared_ptr<Workshop> replace(const Workshop& full);

  Grammar grammar_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;
  std::unique_ptr<Shared> shared_;
};

// Where a text stands in a grammar: a value, so that a copy goes its own way. One thread each;
// those of one Constraint may go on in several, which share what they learn.
//
// Errors, of all that return a Result: kExhausted where the grammar takes more time or memory for
// this text than there is. Nothing has changed then.
class Matcher {
 public:
  // A bit for each token: word id / 64, bit id % 64. Tokens that are not text never get one, those
  // that end an answer neither: they may come where is_complete(). [n_mask_words]
  Result<void> mask(std::span<uint64_t> allowed);
  // As the bit in the mask, without making one.
  Result<bool> allows(TokenId id);
  // Goes on behind a token; false, and nothing changed, where it is not allowed.
  Result<bool> accept(TokenId id);
  // As many of the bytes as are allowed; what was read is one token for roll_back().
  Result<size_t> accept_bytes(std::string_view bytes);
  // To before the last n tokens. They must have been accepted, and be among the last
  // kMaxRollBack of them.
  void roll_back(size_t n_tokens);
  static constexpr size_t kMaxRollBack = 256;

  // The text may end here.
  Result<bool> is_complete();
  // What must follow, whatever is chosen: up to `max_bytes`. In a string it may end within a
  // character.
  Result<std::string> forced_bytes(size_t max_bytes);
  // The bytes that may follow, ascending.
  Result<std::string> next_bytes();
  // How many states of the grammar are known, for figures.
  size_t n_states() const;

 private:
  friend class Constraint;
  Matcher(std::shared_ptr<Constraint> constraint, std::shared_ptr<Workshop> workshop,
          uint32_t state);
  // Runs work(workshop, state), anew in an emptier workshop where this one is full.
  template <class Work>
  auto run(const Work& work) -> decltype(auto);
  void move_to(std::shared_ptr<Workshop> workshop);

  std::shared_ptr<Constraint> constraint_;
  std::shared_ptr<Workshop> workshop_;
  std::vector<uint32_t> states_;  // before each of the last tokens; the last one is now
};

}  // namespace kvik::grammar
