#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/machine.h"
#include "constrain/vocabulary/vocabulary_trie.h"

namespace kvik::constrain {

// The machine of one matcher and the masks computed with it. Use from one thread.
class MaskCache {
 public:
  // number of the start state in every machine
  static constexpr uint32_t kStart = 1;

  MaskCache(std::shared_ptr<const GrammarParts> parts,
            std::shared_ptr<const VocabularyTrie> vocabulary)
      : machine(std::move(parts)), vocabulary_(std::move(vocabulary)) {}

  // Sets `allowed` to the mask of the state. It has at least as many bits as the vocabulary has
  // tokens.
  void make_mask(State state, TokenBitmask& allowed);
  // Copies states from another cache of the same grammar and replaces their numbers in `states`.
  // Returns false if they exceed the limits.
  bool copy_states(const MaskCache& from, std::span<uint32_t> states);

  bool is_exhausted() const { return machine.exhausted(); }
  size_t bytes() const { return machine.bytes() + mask_bytes_; }

  Machine machine;

 private:
  // A cached mask: all plain tokens or none of them, and a list of further tokens.
  struct Mask {
    bool plain = false;
    std::vector<TokenId> tokens;
    std::optional<TokenBitmask> bits;  // replaces both if there are many tokens
    std::vector<TokenId> undecided;    // tokens that depend on earlier strings
  };
  // The tails (see StringTokens) that may follow a string, and those that depend on earlier
  // strings.
  struct Tails {
    std::vector<StringTokens::Tail> sure, undecided;
  };
  void fill_new(State state, TokenBitmask& allowed);
  // Computes the mask as the union of the masks of the state's threads.
  void fill_by_threads(State state, TokenBitmask& allowed);
  // Computes the mask of a state in a string if most characters lead to a state in which any
  // characters are allowed. Returns false for other states.
  bool fill_string(State state, TokenBitmask& allowed);
  void fill_any_string(const Machine::AnyString& place, TokenBitmask& allowed);
  void fill_exceptions(State state, State usual, uint32_t begin, uint32_t end,
                       TokenBitmask& allowed);
  const Tails& tails_of(State after_quote);
  // Computes the mask of any state by walking the trie.
  void fill(State state, TokenBitmask& allowed);
  void walk(const TokenTree& tree, State state, TokenBitmask& allowed);
  void walk_plain(State state, TokenBitmask& allowed);
  void walk_below(const TokenTree& tree, uint32_t begin, uint32_t end, State state,
                  TokenBitmask& allowed);
  // Stores a computed mask.
  void keep(State state, const TokenBitmask& allowed);
  // Copies the cached mask of the state. Returns false if there is none.
  bool copy_kept(State state, TokenBitmask& allowed);
  bool asked();
  void settle(State state, TokenBitmask& allowed);
  // Returns whether all plain tokens are allowed.
  bool is_free(State state);
  // Returns whether every byte of `set` leads from the state to itself. Then all tokens that
  // consist of these bytes are allowed.
  bool loops(State state, const Machine::ByteSet& set);

  std::shared_ptr<const VocabularyTrie> vocabulary_;
  std::unordered_map<uint32_t, Mask> masks_;
  std::unordered_map<uint32_t, bool> free_;
  std::unordered_map<uint32_t, Tails> tails_;
  // The bytes that lead from a state to itself, among the known ones.
  struct Loops {
    Machine::ByteSet known{}, loop{};
  };
  std::unordered_map<uint32_t, Loops> loops_;
  std::vector<TokenId> undecided_;  // tokens of the current mask that depend on earlier strings
  size_t mask_bytes_ = 0;
};

}  // namespace kvik::constrain
