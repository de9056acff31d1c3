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
  // The memory of its matchers is added to `meter`, if given.
  using Meter = std::shared_ptr<std::atomic<int64_t>>;
  static std::shared_ptr<CompiledGrammar> make(Grammar grammar,
                                               std::shared_ptr<const VocabularyTrie> vocabulary,
                                               Meter meter = nullptr);

  // Returns a matcher at the beginning of a text.
  GrammarMatcher start() const;

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }
  // Memory of the compiled grammar, without the vocabulary and the matchers.
  size_t bytes() const { return grammar_.bytes(); }

 private:
  friend class GrammarMatcher;
  CompiledGrammar(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary, Meter meter);

  Grammar grammar_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;  // shared with other grammars
  Meter meter_;                                       // shared with its reader
};

// Position of a text in a grammar. A value: a copy continues independently. Each matcher has its
// own machine and masks, so that results depend on grammar and text only, never on other matchers.
// One thread.
//
// Errors of all functions that return a Result: kExhausted if the next token takes more work or
// memory than Effort allows. With kSmall the position is unchanged, and the call may be repeated
// with kFull; after an error with kFull the matcher has failed permanently and keeps returning that
// error.
class GrammarMatcher {
 public:
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&& other) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) = delete;
  ~GrammarMatcher();

  // Limits the work of all following calls together: kSmall is about half a millisecond, kFull the
  // limit for one token. Without it, each call may take that.
  enum class Effort : uint8_t { kSmall, kFull };
  void set_effort(Effort effort);
  // Returns true once a call with kFull has exceeded the limits.
  bool has_failed() const { return has_failed_; }

  // Sets the bits of the tokens that may come next; never those of non-text tokens, nor
  // end-of-sequence tokens, which are allowed if is_complete(). allowed: of the size of the
  // vocabulary, or larger.
  Result<void> mask(TokenBitmask& allowed);
  // Returns the token's bit of the mask, without making a mask.
  Result<bool> allows(TokenId id);
  // Reads a token; returns false and changes nothing if it is not allowed.
  Result<bool> accept(TokenId id);
  // Reads as many of the bytes as are allowed; they count as one token for roll_back().
  Result<size_t> accept_bytes(std::string_view bytes);
  // Undoes the last n tokens, which must have been accepted and be among the last kMaxRollBack.
  void roll_back(size_t n_tokens);
  static constexpr size_t kMaxRollBack = 64;

  // Returns whether the text may end here.
  Result<bool> is_complete();
  // Returns up to `max_bytes` bytes that must follow. In a string they may end within a character.
  Result<std::string> forced_bytes(size_t max_bytes);
  // Returns the bytes that may follow, in ascending order.
  Result<std::string> next_bytes();
  // Number of known states, for statistics.
  size_t n_states() const;
  // Memory of machine and masks: at most about kKeptBytes after a call with kFull, and about
  // kSmallBytes after one with kSmall.
  size_t bytes() const;

  static constexpr uint64_t kSmallWork = 50'000;  // steps, as in Limits::max_work_per_token
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  static constexpr size_t kSmallBytes = 2 * kKeptBytes;

 private:
  friend class CompiledGrammar;
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);

  // Runs work(cache, state); with kFull again in a new cache if this one is exhausted.
  template <class Work>
  auto run(const Work& work) -> decltype(auto);
  // Replaces the cache by one that contains only states_. Returns false if they alone exceed the
  // limits.
  bool renew_mask_cache();
  bool drop_excess();
  void push(uint32_t state);
  void count();
  std::unexpected<Error> exhausted() const;
  std::unexpected<Error> fail_for_good();

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::unique_ptr<MaskCache> mask_cache_;  // null until needed
  // states before each of the last tokens; the last one is the current state
  std::vector<uint32_t> states_;
  Effort effort_ = Effort::kFull;
  std::optional<uint64_t> work_left_;  // of set_effort()
  bool is_spent_ = false;              // the cache exceeded a limit: only its states are usable
  bool has_failed_ = false;
  size_t counted_bytes_ = 0;  // included in the meter
};

}  // namespace kvik::constrain
