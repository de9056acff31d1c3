#include "engine/schedule/prompt_sharing.h"

#include <algorithm>

namespace kvik {

bool PromptSharing::adopt(Sequence& sequence) {
  const auto tokens = sequence.cacheable_tokens();
  if (tokens.size() < sequence.n_cached || kv_.layout().has_state()) return false;
  const uint32_t n_known = kv_.adopt(sequence.table, tokens);
  const bool has_more = n_known > sequence.n_cached;
  if (has_more) reuse_.count(sequence, n_known);
  return copy_shared_partial_page(sequence, tokens) || has_more;
}

// Copies the rows that other sequences have computed of a page that they have not filled yet. The
// choices of one request share their prompt up to its last token.
bool PromptSharing::copy_shared_partial_page(Sequence& sequence, std::span<const TokenId> tokens) {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  if (tokens.size() <= std::max<size_t>(begin, sequence.n_cached)) return false;
  const auto own = tokens.subspan(begin);
  bool has_more = false;
  for (const auto& other : running_.all()) {
    if (other.get() == &sequence || other->n_cached <= sequence.n_cached) continue;
    if (!other->uses_cache() || other->root() != sequence.root() ||
        mark_of(*other) != mark_of(sequence) ||
        other->table.n_sealed() != sequence.table.n_sealed() ||
        other->table.last_key() != sequence.table.last_key()) {
      continue;
    }
    auto computed = other->cached_tokens().subspan(begin);
    computed = computed.first(std::min<size_t>(computed.size(), kPageTokens));
    const auto n_known = static_cast<uint32_t>(begin) + common_prefix(computed, own);
    if (n_known <= sequence.n_cached) continue;
    if (!kv_.copy_partial_page(sequence.table, other->table, other->n_cached, n_known)) {
      continue;
    }
    reuse_.count(sequence, n_known);
    has_more = true;
  }
  return has_more;
}

// Returns true if `other` will compute the next page of `sequence`: all earlier pages and the
// tokens of this page are the same. If the two may not read each other's pages, the page must be
// full. A prompt that computes less than a page per step is not waited for.
bool PromptSharing::will_compute_for(const Sequence& other, const Sequence& sequence) const {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page_of = [&](std::span<const TokenId> tokens) {
    const auto rest = tokens.subspan(std::min(begin, tokens.size()));
    return rest.first(std::min<size_t>(kPageTokens, rest.size()));
  };
  const auto own = page_of(sequence.cacheable_tokens());
  if (kv_.layout().has_state()) return false;  // the state after the page would be missing
  if (own.size() < kPageTokens && mark_of(other) != mark_of(sequence)) return false;
  return !own.empty() && begin + own.size() > sequence.n_cached && !other.is_decoding() &&
         other.uses_cache() && other.root() == sequence.root() &&
         other.request.max_chunk >= kPageTokens &&
         other.table.last_key() == sequence.table.last_key() &&
         common_prefix(page_of(other.tokens), own) == own.size();
}

// Returns true if the sequence will be able to read its next page after tenants with these marks
// have computed it: either two tenants know the page by then, or one of them is the sequence's own.
bool PromptSharing::will_be_readable(const Sequence& sequence, SharingMark computed_by) const {
  if (computed_by == SharingMark::kNoTenant) return false;
  const SharingMark reader = mark_of(sequence);
  if (may_hit(reader, computed_by)) return true;
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page = sequence.cacheable_tokens().subspan(begin, kPageTokens);
  return may_hit(reader, joined(computed_by, kv_.mark_for(sequence.table, page)));
}

bool PromptSharing::is_computed_in(const StepPlan& plan, const Sequence& sequence) const {
  SharingMark by = SharingMark::kNoTenant;
  for (const StepPlan::Entry& entry : plan.entries) {
    if (entry.sequence == &sequence) return true;
    if (will_compute_for(*entry.sequence, sequence)) by = joined(by, mark_of(*entry.sequence));
  }
  return will_be_readable(sequence, by);
}

Sequence& PromptSharing::best_prompt_for_next_page(Sequence& sequence,
                                                   std::span<Sequence* const> prompts,
                                                   const StepPlan& plan) const {
  const auto is_planned = [&](const Sequence* candidate) {
    return std::ranges::any_of(
        plan.entries, [=](const StepPlan::Entry& entry) { return entry.sequence == candidate; });
  };
  Sequence* own = nullptr;
  Sequence* others = nullptr;
  SharingMark by = SharingMark::kNoTenant;
  for (Sequence* other : prompts) {
    if (other->n_cached <= sequence.n_cached || !will_compute_for(*other, sequence)) continue;
    const bool is_own = mark_of(*other) == mark_of(sequence);
    if (!is_own) by = joined(by, mark_of(*other));
    if (!is_own && is_planned(other)) continue;
    Sequence*& best = is_own ? own : others;
    if (!best || other->n_cached > best->n_cached) best = other;
  }
  if (own) return *own;
  return others && will_be_readable(sequence, by) ? *others : sequence;
}

}  // namespace kvik
