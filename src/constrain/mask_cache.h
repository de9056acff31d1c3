#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/machine.h"
#include "constrain/vocabulary/vocabulary_trie.h"

namespace kvik::constrain {

// The machine of one matcher, and the masks made with it. One thread.
class MaskCache {
 public:
  // Number of the start state in every machine.
  static constexpr uint32_t kStart = 1;

  MaskCache(std::shared_ptr<const GrammarParts> parts,
            std::shared_ptr<const VocabularyTrie> vocabulary)
      : machine(std::move(parts)), vocabulary_(std::move(vocabulary)) {}

  // allowed: of the size of the vocabulary, or larger.
  void make_mask(State state, TokenBitmask& allowed);
  // Copies states of another cache of the same grammar, which changes their numbers. Returns false
  // if they do not fit.
  bool copy_states(const MaskCache& from, std::span<uint32_t> states);

  bool is_exhausted() const { return machine.exhausted(); }
  size_t bytes() const { return machine.bytes() + mask_bytes_; }

  Machine machine;

 private:
  // All plain tokens or none, and some more.
  struct Mask {
    bool plain = false;
    std::vector<TokenId> tokens;
    std::optional<TokenBitmask> bits;  // replaces both if there are many tokens
    std::vector<TokenId> unsure;       // depend on earlier strings
  };
  // Tails that may follow a string, and those that depend on earlier strings.
  struct Tails {
    std::vector<StringTokens::Tail> sure, unsure;
  };
  void fill_new(State state, TokenBitmask& allowed);
  // Combines the masks of the threads, which are independent.
  void fill_by_threads(State state, TokenBitmask& allowed);
  // For states in a string in which most characters lead to where any character is allowed.
  bool fill_string(State state, TokenBitmask& allowed);
  void fill_any_string(const Machine::AnyString& place, TokenBitmask& allowed);
  void mend(State state, State mostly, uint32_t begin, uint32_t end, TokenBitmask& allowed);
  const Tails& tails_of(State behind);
  // All other states.
  void fill(State state, TokenBitmask& allowed);
  void walk(const TokenTree& tree, State state, TokenBitmask& allowed);
  void walk_plain(State state, TokenBitmask& allowed);
  void walk_below(const TokenTree& tree, uint32_t begin, uint32_t end, State state,
                  TokenBitmask& allowed);
  void keep(State state, const TokenBitmask& allowed);
  bool copy_kept(State state, TokenBitmask& allowed);
  bool asked();
  void settle(State state, TokenBitmask& allowed);
  bool is_free(State state);
  // Returns whether every byte of `set` leads from the state to itself: then all tokens of such
  // bytes are allowed.
  bool loops(State state, const Machine::ByteSet& set);

  std::shared_ptr<const VocabularyTrie> vocabulary_;
  std::unordered_map<uint32_t, Mask> masks_;
  std::unordered_map<uint32_t, bool> free_;
  std::unordered_map<uint32_t, Tails> tails_;
  // Bytes that lead from a state to itself, of those that are known.
  struct Loops {
    Machine::ByteSet known{}, loop{};
  };
  std::unordered_map<uint32_t, Loops> loops_;
  std::vector<TokenId> unsure_;  // of the mask being made
  size_t mask_bytes_ = 0;
};

}  // namespace kvik::constrain
