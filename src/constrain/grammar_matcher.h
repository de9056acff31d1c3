#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "constrain/grammar.h"
#include "constrain/vocabulary/vocabulary_trie.h"

namespace kvik::constrain {

class MaskCache;
class GrammarMatcher;

// A grammar for the tokens of a vocabulary. Immutable: any thread.
class CompiledGrammar : public std::enable_shared_from_this<CompiledGrammar> {
 public:
  // Bytes of its matchers are added to `meter`, where there is one.
  using Meter = std::shared_ptr<std::atomic<int64_t>>;
  static std::shared_ptr<CompiledGrammar> make(Grammar grammar,
                                               std::shared_ptr<const VocabularyTrie> vocabulary,
                                               Meter meter = nullptr);

  // Returns a matcher at the beginning of a text.
  GrammarMatcher start() const;

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }
  // Bytes of the compiled grammar, without the vocabulary and without its matchers.
  size_t bytes() const { return grammar_.bytes(); }

 private:
  friend class GrammarMatcher;
  CompiledGrammar(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary, Meter meter);

  Grammar grammar_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;  // shared with other grammars
  Meter meter_;                                       // shared with its reader
};

// The position of a text in a grammar. A value: a copy continues on its own. Each matcher has a
// machine and masks of its own, so the outcome of a text depends on the grammar and the text alone,
// never on other matchers of the same grammar. One thread.
//
// Errors of everything that returns a Result: kExhausted where the next token takes more work or
// memory than Effort allows. With kSmall the position is unchanged, and the call may be repeated
// with kFull; after an error with kFull the matcher has failed for good and returns the same error
// from then on.
class GrammarMatcher {
 public:
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&& other) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) = delete;
  ~GrammarMatcher();

  // The work that all calls from here on may take together: kSmall is about half a millisecond,
  // kFull what the limits allow for one token. Without it, each call may take that.
  enum class Effort : uint8_t { kSmall, kFull };
  void set_effort(Effort effort);
  // True once a call with kFull has met the limits.
  bool has_failed() const { return has_failed_; }

  // The tokens that may come next; never those that are not text, nor those that end an answer:
  // they may come where is_complete(). allowed: of the vocabulary, or larger.
  Result<void> mask(TokenBitmask& allowed);
  // Returns the token's bit in the mask, without making one.
  Result<bool> allows(TokenId id);
  // Reads a token; returns false, and changes nothing, where it is not allowed.
  Result<bool> accept(TokenId id);
  // Reads as many of the bytes as are allowed; what was read is one token for roll_back().
  Result<size_t> accept_bytes(std::string_view bytes);
  // Takes back the last n tokens. They must have been accepted, and be among the last kMaxRollBack
  // of them.
  void roll_back(size_t n_tokens);
  static constexpr size_t kMaxRollBack = 64;

  // Returns whether the text may end here.
  Result<bool> is_complete();
  // Returns the bytes that must follow, whatever is chosen: up to `max_bytes`. In a string they may
  // end within a character.
  Result<std::string> forced_bytes(size_t max_bytes);
  // Returns the bytes that may follow, ascending.
  Result<std::string> next_bytes();
  // Number of the grammar's states that are known, for figures.
  size_t n_states() const;
  // Bytes that the machine and the masks take: about kKeptBytes at most after a call with kFull,
  // and about kSmallBytes after one with kSmall.
  size_t bytes() const;

  static constexpr uint64_t kSmallWork = 50'000;  // steps, as of Limits::max_work_per_token
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  static constexpr size_t kSmallBytes = 2 * kKeptBytes;

 private:
  friend class CompiledGrammar;
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);

  // Runs work(cache, state), with kFull once more in a new cache where this one is
  // exhausted.
  template <class Work>
  auto run(const Work& work) -> decltype(auto);
  // Replaces the cache by one that knows nothing but states_. Returns false where they alone
  // take more than the limits.
  bool renew_mask_cache();
  bool drop_excess();
  void push(uint32_t state);
  void count();
  std::unexpected<Error> exhausted() const;
  std::unexpected<Error> fail_for_good();

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::unique_ptr<MaskCache> mask_cache_;  // null until something is asked
  std::vector<uint32_t> states_;  // before each of the last tokens; the last one is the current one
  Effort effort_ = Effort::kFull;
  std::optional<uint64_t> work_left_;  // of set_effort()
  bool is_spent_ = false;              // the cache met a limit: only its states are of use
  bool has_failed_ = false;
  size_t counted_bytes_ = 0;  // in the meter
};

}  // namespace kvik::constrain
