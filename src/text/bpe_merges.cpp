#include "text/bpe_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/vocabulary.h"

namespace kvik {
namespace {

constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// The top of a std heap: lowest rank first, then leftmost.
constexpr auto kComesLater = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
};

}  // namespace

Result<BpeMerges> BpeMerges::read(const Metadata& metadata, const Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::vector<std::string>* merges, metadata.get_strings(kMergesKey));
  if (!merges) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("metadata key '{}' is missing, expected since 'tokenizer.ggml.model' is "
                    "'gpt2'",
                    kMergesKey));
  }
  BpeMerges result;
  result.joins_.reserve(merges->size());
  uint32_t rank = 0;
  for (const std::string_view merge : *merges) {
    const size_t blank = merge.find(' ', 1);
    if (blank == merge.npos || blank + 1 == merge.size()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' has '{}' as number {}, expected two tokens with a "
                              "blank between",
                              kMergesKey, merge, rank));
    }
    const std::string_view halves[] = {merge.substr(0, blank), merge.substr(blank + 1)};
    for (const std::string_view half : halves) {
      if (vocabulary.find(half)) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' has '{}' as number {}, expected two tokens, but "
                              "'{}' is none",
                              kMergesKey, merge, rank, half));
    }
    const std::optional<TokenId> joined =
        vocabulary.find_plain(std::string(halves[0]).append(halves[1]));
    if (joined) {
      result.joins_.emplace(pair(*vocabulary.find(halves[0]), *vocabulary.find(halves[1])),
                            Join{rank, *joined});
    }
    ++rank;
  }
  return result;
}

void BpeMerges::consider(Scratch& scratch, uint32_t left) const {
  const Scratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.next == scratch.symbols.size()) return;
  const TokenId right_id = scratch.symbols[symbol.next].id;
  const auto it = joins_.find(pair(symbol.id, right_id));
  if (it == joins_.end()) return;
  scratch.heap.push_back({it->second.rank, left, symbol.id, right_id, it->second.id});
}

void BpeMerges::join(std::vector<TokenId>& ids, size_t from, Scratch& scratch) const {
  CHECK(ids.size() - from < std::numeric_limits<uint32_t>::max());
  const auto n = static_cast<uint32_t>(ids.size() - from);
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (uint32_t i = 0; i < n; ++i) {
    symbols.push_back({ids[from + i], i == 0 ? 0 : i - 1, i + 1, false});
  }
  auto& heap = scratch.heap;
  heap.clear();
  for (uint32_t i = 0; i + 1 < n; ++i) consider(scratch, i);
  std::make_heap(heap.begin(), heap.end(), kComesLater);

  const auto push_pair_at = [&](uint32_t left) {
    const size_t n_before = heap.size();
    consider(scratch, left);
    if (heap.size() > n_before) std::push_heap(heap.begin(), heap.end(), kComesLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kComesLater);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[best.left];
    if (left.is_gone || left.id != best.left_id || left.next == n) continue;
    Scratch::Symbol& right = symbols[left.next];
    if (right.id != best.right_id) continue;

    left.id = best.joined;
    left.next = right.next;
    right.is_gone = true;
    if (left.next < n) symbols[left.next].prev = best.left;
    if (best.left > 0) push_pair_at(left.prev);
    push_pair_at(best.left);
  }

  ids.resize(from);
  for (uint32_t i = 0; i < n; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace kvik
