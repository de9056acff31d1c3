#include "text/bpe/bpe_merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

// Up to this number of tokens, searching all pairs for the best one is cheaper than a priority
// queue.
constexpr size_t kFew = 48;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

}  // namespace

size_t BpeMerges::slot_of(uint64_t pair) const {
  // Fibonacci hashing. The upper half of the product depends on all bits.
  size_t i = (pair * 0x9E3779B97F4A7C15u ^ pair >> 29) * 0xBF58476D1CE4E5B9u >> 32;
  for (i &= slots_.size() - 1; slots_[i].pair != pair && slots_[i].pair != kEmpty;) {
    i = (i + 1) & (slots_.size() - 1);
  }
  return i;
}

void BpeMerges::reserve(size_t n) {
  const size_t n_slots = std::bit_ceil(std::max<size_t>(2 * n, 2));
  if (n_slots <= slots_.size()) return;
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots));
  for (const Slot& slot : old) {
    if (slot.pair != kEmpty) slots_[slot_of(slot.pair)] = slot;
  }
}

void BpeMerges::insert(TokenId left, TokenId right, const Join& join) {
  reserve(n_ + 1);
  Slot& slot = slots_[slot_of(pair(left, right))];
  if (slot.pair != kEmpty) return;
  slot = {pair(left, right), join};
  ++n_;
  max_rank_ = std::max(max_rank_, join.rank);
}

const BpeMerges::Join* BpeMerges::find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[slot_of(pair(left, right))];
  return slot.pair == kEmpty ? nullptr : &slot.join;
}

// Merges a long word. The candidates are in one list per rank, and the lowest rank with candidates
// is processed from left to right. A candidate left of the last position processed for its rank,
// which is only possible with equal ranks, goes to a heap.
class LongWordMerger {
 public:
  LongWordMerger(const BpeMerges& joins, uint32_t max_rank, BpeMerges::Scratch& scratch)
      : joins_(joins), s_(scratch) {
    if (s_.buckets.size() <= max_rank) s_.buckets.resize(size_t{max_rank} + 1, {kNone, kNone});
    s_.nodes.clear();
  }

  void join(std::vector<TokenId>& ids, size_t from) {
    const auto n = static_cast<uint32_t>(ids.size() - from);
    s_.symbols.clear();
    s_.symbols.reserve(n);
    s_.nodes.reserve(n);
    for (uint32_t i = 0; i < n; ++i) {
      s_.symbols.push_back({ids[from + i], i == 0 ? 0 : i - 1, i + 1});
    }
    for (uint32_t i = 0; i + 1 < n; ++i) consider(i);
    while (const std::optional<Candidate> best = pop()) try_join(*best);
    ids.resize(from);
    for (uint32_t i = 0; i < n; i = s_.symbols[i].next) ids.push_back(s_.symbols[i].id);
  }

 private:
  struct Candidate {
    uint32_t rank;
    uint32_t place;
  };

  void consider(uint32_t left) {
    const auto& symbol = s_.symbols[left];
    if (symbol.next == s_.symbols.size()) return;
    if (const auto* join = joins_.find(symbol.id, s_.symbols[symbol.next].id)) {
      push({join->rank, left});
    }
  }

  void push(const Candidate& candidate) {
    auto& [first, last] = s_.buckets[candidate.rank];
    if (first != kNone && s_.nodes[last].place > candidate.place) {
      s_.late.push_back(uint64_t{candidate.rank} << 32 | candidate.place);
      std::push_heap(s_.late.begin(), s_.late.end(), std::greater<>());
      return;
    }
    const uint32_t node = take_node();
    s_.nodes[node] = {candidate.place, kNone};
    if (first == kNone) {
      first = node;
      s_.ranks.push_back(candidate.rank);
      std::push_heap(s_.ranks.begin(), s_.ranks.end(), std::greater<>());
    } else {
      s_.nodes[last].next = node;
    }
    last = node;
  }

  uint32_t take_node() {
    if (free_ != kNone) return std::exchange(free_, s_.nodes[free_].next);
    s_.nodes.emplace_back();
    return static_cast<uint32_t>(s_.nodes.size() - 1);
  }

  std::optional<Candidate> pop() {
    while (!s_.ranks.empty() && s_.buckets[s_.ranks.front()].first == kNone) {
      std::pop_heap(s_.ranks.begin(), s_.ranks.end(), std::greater<>());
      s_.ranks.pop_back();
    }
    std::optional<Candidate> best;
    if (!s_.ranks.empty()) {
      const uint32_t rank = s_.ranks.front();
      best = Candidate{rank, s_.nodes[s_.buckets[rank].first].place};
    }
    if (!s_.late.empty()) {
      const uint64_t late = s_.late.front();
      if (!best || late < (uint64_t{best->rank} << 32 | best->place)) {
        std::pop_heap(s_.late.begin(), s_.late.end(), std::greater<>());
        s_.late.pop_back();
        return Candidate{static_cast<uint32_t>(late >> 32), static_cast<uint32_t>(late)};
      }
    }
    if (!best) return best;
    uint32_t& first = s_.buckets[best->rank].first;
    const uint32_t node = first;
    first = s_.nodes[node].next;
    s_.nodes[node].next = std::exchange(free_, node);
    return best;
  }

  void try_join(const Candidate& candidate) {
    auto& left = s_.symbols[candidate.place];
    if (left.id == kMerged || left.next == s_.symbols.size()) return;
    auto& right = s_.symbols[left.next];
    // One of the tokens may have been merged since. In that case the new pair was added with its
    // own rank.
    const auto* join = joins_.find(left.id, right.id);
    if (!join || join->rank != candidate.rank) return;
    left.id = join->id;
    left.next = right.next;
    right.id = kMerged;
    if (left.next < s_.symbols.size()) s_.symbols[left.next].prev = candidate.place;
    if (candidate.place > 0) consider(left.prev);
    consider(candidate.place);
  }

  static constexpr TokenId kMerged = std::numeric_limits<TokenId>::max();

  const BpeMerges& joins_;
  BpeMerges::Scratch& s_;
  uint32_t free_ = kNone;  // the first free node
};

void BpeMerges::join_few(std::vector<TokenId>& ids, size_t from) const {
  struct Symbol {
    TokenId id;
    uint32_t rank;   // rank of the merge with the next token; kNone if the two do not merge
    TokenId joined;  // result of that merge
  };
  std::array<Symbol, kFew> symbols;
  size_t n = ids.size() - from;
  const auto consider = [&](size_t i) {
    const Join* join = i + 1 < n ? find(symbols[i].id, symbols[i + 1].id) : nullptr;
    symbols[i].rank = join ? join->rank : kNone;
    if (join) symbols[i].joined = join->id;
  };
  for (size_t i = 0; i < n; ++i) symbols[i].id = ids[from + i];
  for (size_t i = 0; i < n; ++i) consider(i);
  for (;;) {
    size_t best = 0;
    uint32_t lowest = kNone;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (symbols[i].rank >= lowest) continue;
      best = i;
      lowest = symbols[i].rank;
    }
    if (lowest == kNone) break;
    symbols[best].id = symbols[best].joined;
    std::copy(&symbols[best] + 2, symbols.data() + n, &symbols[best] + 1);
    --n;
    consider(best);
    if (best > 0) consider(best - 1);
  }
  ids.resize(from + n);
  for (size_t i = 0; i < n; ++i) ids[from + i] = symbols[i].id;
}

void BpeMerges::join(std::vector<TokenId>& ids, size_t from, Scratch& scratch) const {
  const size_t n = ids.size() - from;
  CHECK(n < std::numeric_limits<uint32_t>::max());
  if (n < 2) return;
  if (n <= kFew) {
    join_few(ids, from);
  } else {
    LongWordMerger(*this, max_rank_, scratch).join(ids, from);
  }
}

}  // namespace kvik
