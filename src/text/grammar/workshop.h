#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "text/grammar/machine.h"
#include "text/grammar/vocabulary_trie.h"

namespace kvik::grammar {

// A machine and the masks that were made with it, for all matchers of a constraint. Its mutex is
// held by whoever uses it.
class Workshop {
 public:
  Workshop(std::shared_ptr<const GrammarParts> parts,
           std::shared_ptr<const VocabularyTrie> vocabulary)
      : machine(std::move(parts)), vocabulary_(std::move(vocabulary)) {}

  // Of what the machine knows and the masks take; beyond it everybody moves on to another one.
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  void make_mask(State state, std::span<uint64_t> allowed);
  bool is_full() const { return machine.exhausted() || machine.bytes() + mask_bytes_ > kMaxBytes; }

  Mutex mutex;
  Machine machine;

 private:
  // All plain tokens or none, and some more.
  struct Mask {
    bool plain = false;
    std::vector<TokenId> tokens;
    std::vector<uint64_t> words;  // in the place of both where tokens would be many
  };
  void walk(const VocabularyTrie::Tree& tree, State state, std::span<uint64_t> allowed);
  void walk_plain(State state, std::span<uint64_t> allowed);
  void walk_below(const VocabularyTrie::Tree& tree, uint32_t begin, uint32_t end, State state,
                  std::span<uint64_t> allowed);
  void fill(State state, std::span<uint64_t> allowed);
  void keep(State state, std::span<const uint64_t> allowed);
  bool is_free(State state);

  std::shared_ptr<const VocabularyTrie> vocabulary_;
  std::unordered_map<uint32_t, Mask> masks_;
  std::unordered_map<uint32_t, bool> free_;
  size_t mask_bytes_ = 0;
};

}  // namespace kvik::grammar
