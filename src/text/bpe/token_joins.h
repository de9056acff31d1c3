#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Which neighbouring tokens join into which, in which order: the heart of BPE, byte-level and
// SentencePiece's. Filled once, then read by any thread; the scratch memory is the caller's.
class TokenJoins {
 public:
  struct Join {
    uint32_t rank;  // the lowest goes first
    TokenId id;     // what the two become
  };

  // Room for `n` pairs.
  void reserve(size_t n);

  // A pair that is there already stays as it is. No rank above `size()` helps: joining a long word
  // takes memory in the highest one.
  void insert(TokenId left, TokenId right, const Join& join);

  // Null where the two do not join.
  const Join* find(TokenId left, TokenId right) const;

  size_t size() const { return n_; }

  // Memory that joining needs, kept between words.
  class Scratch {
    friend class TokenJoins;
    friend class LongWordJoiner;
    struct Symbol {
      TokenId id;
      uint32_t prev;  // of the first: itself
      uint32_t next;  // of the last: one past the end
    };
    // Candidates of one rank, in ascending places: a list in `nodes`.
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
    std::vector<uint32_t> ranks;  // a heap of those whose bucket is not empty
    std::vector<uint64_t> late;   // a heap of rank << 32 | place that came out of order
  };

  // Joins ids[from…] in place: always the lowest rank, the leftmost among equals, until nothing
  // joins. O(n log n) for n ids, whatever they are.
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

  std::vector<Slot> slots_ = std::vector<Slot>(2);  // linear probing, at most half taken
  size_t n_ = 0;
  uint32_t max_rank_ = 0;
};

}  // namespace kvik
