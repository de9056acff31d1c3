#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "base/token_id.h"

namespace kvik {

struct Vocabulary;

// Which neighbours join into which token, in which order: tokenizer.ggml.merges. Immutable after
// reading, any thread; the scratch memory is the caller's.
class BpeMerges {
 public:
  // Errors: kCorrupt where the key is missing, a merge is not "left right", or either is no token.
  // A merge whose result is no token is left out, as in llama.cpp.
  static Result<BpeMerges> read(const Metadata& metadata, const Vocabulary& vocabulary);

  // Memory that joining needs, kept between words.
  class Scratch {
    friend class BpeMerges;
    struct Symbol {
      TokenId id;
      uint32_t prev;  // of the first: itself
      uint32_t next;  // of the last: one past the end
      bool is_gone;   // joined into the one before it
    };
    struct Candidate {
      uint32_t rank;
      uint32_t left;
      TokenId left_id;  // ids as they were: a candidate whose symbols changed since is void
      TokenId right_id;
      TokenId joined;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Joins ids[from…] in place: always the lowest rank, the leftmost among equals, until nothing
  // joins. O(n log n) for n ids, whatever they are.
  void join(std::vector<TokenId>& ids, size_t from, Scratch& scratch) const;

  size_t size() const { return joins_.size(); }

 private:
  struct Join {
    uint32_t rank;
    TokenId id;
  };

  static uint64_t pair(TokenId left, TokenId right) { return uint64_t{left} << 32 | right; }
  void consider(Scratch& scratch, uint32_t left) const;

  std::unordered_map<uint64_t, Join> joins_;
};

}  // namespace kvik
