#include "engine/speculate/suffix_index.h"

#include <algorithm>
#include <bit>

namespace kvik {
namespace {

constexpr uint32_t kShort = 2, kLong = 5;  // tokens that are hashed for a chain
constexpr uint64_t kMinHeads = 512, kMaxHeads = 1 << 17;

}  // namespace

SuffixIndex::SuffixIndex(uint64_t n_tokens) {
  const uint64_t n_heads = std::clamp(std::bit_ceil(2 * n_tokens), kMinHeads, kMaxHeads);
  for (Chains* chains : {&long_, &short_}) {
    chains->heads.assign(n_heads, kNone);
    chains->before.reserve(n_tokens);
  }
  long_.n = kLong;
  short_.n = kShort;
}

uint64_t SuffixIndex::max_bytes(uint64_t n_tokens) {
  return 2 * (kMinHeads + 4 * n_tokens + n_tokens) * sizeof(uint32_t);
}

uint32_t SuffixIndex::common_suffix(std::span<const TokenId> tokens, uint32_t a, uint32_t b) {
  const uint32_t most = std::min({a, b, kLongest});
  uint32_t n = 0;
  while (n < most && tokens[a - 1 - n] == tokens[b - 1 - n]) ++n;
  return n;
}

// Returns the hash of the n tokens before `end` (Fibonacci hashing).
uint32_t SuffixIndex::Chains::head_of(std::span<const TokenId> tokens, uint32_t end) const {
  uint64_t hash = 0;
  for (uint32_t i = end - n; i < end; ++i) hash = (hash + tokens[i] + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>((hash >> 32) & (heads.size() - 1));
}

void SuffixIndex::Chains::add(std::span<const TokenId> tokens, uint32_t end) {
  before.resize(end + 1, kNone);
  if (end < n) return;
  uint32_t& head = heads[head_of(tokens, end)];
  before[end] = head;
  head = end;
}

void SuffixIndex::Chains::find(std::span<const TokenId> tokens, SuffixMatch& best) const {
  const auto end = static_cast<uint32_t>(tokens.size());
  if (end < n) return;
  uint32_t at = heads[head_of(tokens, end)];
  for (uint32_t i = 0; i < kTries && at != kNone; ++i, at = before[at]) {
    const uint32_t n_matched = common_suffix(tokens, at, end);
    if (n_matched >= n && n_matched > best.n_matched) best = {at, n_matched};
  }
}

SuffixMatch SuffixIndex::find(std::span<const TokenId> tokens) {
  const auto end = static_cast<uint32_t>(tokens.size());
  for (; n_known_ + 1 < end; ++n_known_) {
    long_.add(tokens, n_known_ + 1);
    short_.add(tokens, n_known_ + 1);
  }
  SuffixMatch best;
  long_.find(tokens, best);
  if (best.n_matched == 0) short_.find(tokens, best);
  return best;
}

}  // namespace kvik
