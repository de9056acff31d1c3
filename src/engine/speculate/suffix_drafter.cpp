#include "engine/speculate/suffix_drafter.h"

#include <algorithm>
#include <span>

#include "engine/sequence.h"

namespace kvik {
namespace {

constexpr uint32_t kLeftCopy = 6;  // matched tokens after which a copy is worth resuming
constexpr uint32_t kNearBefore = 8, kNear = 96;  // tokens around the position where it was left
constexpr uint32_t kLeftFor = 256;               // tokens after which a copy is no longer resumed

// Appends the tokens from `match` on. The confidence in each grows with the tokens matched before
// it.
void copy_continuation(std::span<const TokenId> tokens, const SuffixMatch& match,
                       DraftSource source, uint32_t n_max, Draft& draft) {
  const auto n_left = static_cast<uint32_t>(tokens.size()) - match.next;
  for (uint32_t i = 0; i < std::min(n_max, n_left); ++i) {
    draft.push_back({tokens[match.next + i], DraftKind::of_match(source, match.n_matched + i)});
  }
}

}  // namespace

void SuffixDrafter::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  DraftState& state = *sequence.speculation.drafts;
  const std::span<const TokenId> tokens = sequence.tokens;
  const uint32_t n = sequence.n_tokens();
  SuffixMatch copy = state.copy;
  if (copy.n_matched > 0) {
    const uint32_t n_came = n - state.n_then;
    uint32_t n_same = 0;
    while (n_same < n_came && tokens[copy.next + n_same] == tokens[state.n_then + n_same]) ++n_same;
    if (n_same < n_came && copy.n_matched + n_same >= kLeftCopy) {
      state.left_at = copy.next + n_came;
      state.left_when = n;
    }
    copy = {copy.next + n_came,
            n_same < n_came ? 0 : std::min(copy.n_matched + n_came, SuffixIndex::kLongest)};
  }
  const SuffixMatch found = state.index.find(tokens);
  if (found.n_matched > copy.n_matched) copy = found;
  state.copy = copy;
  state.n_then = n;
  if (copy.n_matched >= kLeftCopy) state.left_at = 0;
  if (copy.n_matched > 0) copy_continuation(tokens, copy, DraftSource::kSuffix, n_max, draft);
}

void ResumeDrafter::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  DraftState& state = *sequence.speculation.drafts;
  if (state.left_at == 0) return;
  if (sequence.n_tokens() > state.left_when + kLeftFor) state.left_at = 0;
  const std::span<const TokenId> tokens = sequence.tokens;
  const uint32_t n = sequence.n_tokens();
  const uint32_t first = std::max(state.left_at, kNearBefore) - kNearBefore;
  const uint32_t last = std::min(state.left_at + kNear, n - 1);
  // If nothing matches, the answer has probably replaced one token.
  SuffixMatch best{std::min(state.left_at, n - 1), 0};
  for (uint32_t at = std::max(first, 1u); at <= last; ++at) {
    const uint32_t n_matched = SuffixIndex::common_suffix(tokens, at, n);
    if (n_matched > best.n_matched) best = {at, n_matched};
  }
  if (best.n_matched == 0 && n > state.left_when) return;
  copy_continuation(tokens, best, DraftSource::kResume, n_max, draft);
}

}  // namespace kvik
