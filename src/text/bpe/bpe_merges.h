#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// The merges of BPE, byte-level or SentencePiece's: which adjacent tokens merge into which token,
// and in which order. Thread-safe once it is filled; callers own the scratch memory.
class BpeMerges {
 public:
  struct Join {
    uint32_t rank;  // the lowest rank merges first
    TokenId id;     // the merged token
  };

  // Reserves memory for `n` pairs.
  void reserve(size_t n);

  // Adds a merge. Has no effect if the pair exists. Ranks should be at most size(), because the
  // memory for merging a long word is proportional to the highest rank.
  void insert(TokenId left, TokenId right, const Join& join);

  // Returns the merge of two tokens; null if they do not merge.
  const Join* find(TokenId left, TokenId right) const;

  size_t size() const { return n_; }

  // Memory for merging, reused between words.
  class Scratch {
    friend class BpeMerges;
    friend class LongWordMerger;
    struct Symbol {
      TokenId id;
      uint32_t prev;  // index of the previous node; the first node refers to itself
      uint32_t next;  // index of the next node; the last node refers to one past the end
    };
    // The candidates of one rank as a list in `nodes`, in ascending positions.
    struct Bucket {
      uint32_t first;
      uint32_t last;
    };
    struct Node {
      uint32_t place;
      uint32_t next;
    };
    std::vector<Symbol> symbols;
    std::vector<Bucket> buckets;  // by rank; all empty between words
    std::vector<Node> nodes;
    std::vector<uint32_t> ranks;  // heap of the ranks with a non-empty bucket
    std::vector<uint64_t> late;   // heap of rank << 32 | position for candidates out of order
  };

  // Merges ids[from…] in place until no pair merges: always the pair with the lowest rank, the
  // leftmost among equals. Takes O(n log n) time for any n ids.
  void join(std::vector<TokenId>& ids, size_t from, Scratch& scratch) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    Join join;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t pair(TokenId left, TokenId right) { return uint64_t{left} << 32 | right; }
  size_t slot_of(uint64_t pair) const;
  void join_few(std::vector<TokenId>& ids, size_t from) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);  // linear probing, at most half full
  size_t n_ = 0;
  uint32_t max_rank_ = 0;
};

}  // namespace kvik
