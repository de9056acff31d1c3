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

// A grammar combined with the tokens of a vocabulary. Immutable; thread-safe.
class CompiledGrammar : public std::enable_shared_from_this<CompiledGrammar> {
 public:
  // The matchers add their memory in bytes to `meter`, if there is one.
  using Meter = std::shared_ptr<std::atomic<int64_t>>;
  static std::shared_ptr<CompiledGrammar> make(Grammar grammar,
                                               std::shared_ptr<const VocabularyTrie> vocabulary,
                                               Meter meter = nullptr);

  // Returns a matcher for a new text.
  GrammarMatcher start() const;

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }
  // Returns the memory of the grammar in bytes, without the vocabulary and the matchers.
  size_t bytes() const { return grammar_.bytes(); }

 private:
  friend class GrammarMatcher;
  CompiledGrammar(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary, Meter meter);

  Grammar grammar_;
  std::shared_ptr<const VocabularyTrie> vocabulary_;  // shared by all grammars
  Meter meter_;                                       // shared with the code that reads it
};

// Matches one text against a grammar, token by token. A copy continues independently. Each matcher
// has its own machine and masks, so that its results depend only on the grammar and the text and
// never on other matchers. Use from one thread.
//
// All functions that return a Result can return kExhausted: the next token takes more work or
// memory than the effort allows. With kSmall the position is unchanged, and the call may be
// repeated with kFull. After an error with kFull the matcher has failed permanently and returns
// this error from then on.
class GrammarMatcher {
 public:
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&& other) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) = delete;
  ~GrammarMatcher();

  // Limits the work of all following calls together: kSmall to about half a millisecond, kFull to
  // the limit for one token. If set_effort() is never called, each call may use the limit for one
  // token.
  enum class Effort : uint8_t { kSmall, kFull };
  void set_effort(Effort effort);
  // Returns true once a call with kFull has exceeded the limits.
  bool has_failed() const { return has_failed_; }

  // Sets the bits of the tokens that may come next and clears all others. Tokens without text and
  // end-of-sequence tokens are never set; the latter are allowed if is_complete(). `allowed` has at
  // least as many bits as the vocabulary has tokens.
  Result<void> mask(TokenBitmask& allowed);
  // Returns the token's bit of the mask without computing the mask.
  Result<bool> allows(TokenId id);
  // Reads a token. Returns false and changes nothing if the token is not allowed.
  Result<bool> accept(TokenId id);
  // Reads bytes up to the first one that is not allowed and returns their number. They count as one
  // token for roll_back().
  Result<size_t> accept_bytes(std::string_view bytes);
  // Undoes the last n_tokens tokens. These must have been accepted, and n_tokens is at most
  // kMaxRollBack.
  void roll_back(size_t n_tokens);
  static constexpr size_t kMaxRollBack = 64;

  // Returns whether the text may end here.
  Result<bool> is_complete();
  // Returns up to `max_bytes` bytes that must follow. Within a string the result may end within a
  // character.
  Result<std::string> forced_bytes(size_t max_bytes);
  // Returns the bytes that may follow in ascending order.
  Result<std::string> next_bytes();
  // Returns the number of states of the machine, for statistics.
  size_t n_states() const;
  // Returns the memory of the machine and the masks: at most about kKeptBytes after a call with
  // kFull, and about kSmallBytes after a call with kSmall.
  size_t bytes() const;

  static constexpr uint64_t kSmallWork = 50'000;  // steps, as in Limits::max_work_per_token
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  static constexpr size_t kSmallBytes = 2 * kKeptBytes;

 private:
  friend class CompiledGrammar;
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);

  // Returns work(cache, state). If the cache exceeds its limits, kFull runs it once more in a new
  // cache.
  template <class Work>
  auto run(const Work& work) -> decltype(auto);
  // Replaces the cache by a new one that contains only states_. Returns false if these states alone
  // exceed the limits.
  bool renew_mask_cache();
  bool shrink_cache();
  void push(uint32_t state);
  void count();
  std::unexpected<Error> exhausted() const;
  std::unexpected<Error> fail_permanently();

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::unique_ptr<MaskCache> mask_cache_;  // null before the first query
  // states before each of the last tokens; the last entry is the current state
  std::vector<uint32_t> states_;
  Effort effort_ = Effort::kFull;
  std::optional<uint64_t>
      work_left_;          // work left since set_effort(); absent if it was never called
  bool is_spent_ = false;  // the cache exceeded a limit, so that only its states can be used
  bool has_failed_ = false;
  size_t counted_bytes_ = 0;  // bytes of this matcher that the meter includes
};

}  // namespace kvik::constrain
