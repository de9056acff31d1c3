#include "tier/wanted_pages.h"

#include <algorithm>

#include "tensor/kv_type.h"

namespace kvik {
namespace {

// maximum number of children to compare for the best partial page
constexpr size_t kMaxChildren = 256;

}  // namespace

size_t first_page_needed(const TierFetch& fetch, uint32_t group, size_t n_tokens) {
  const uint64_t first = fetch.rules[group].first_page_needed(fetch.n_before + n_tokens);
  return first - std::min<uint64_t>(first, fetch.n_before / kPageTokens);
}

bool leads(const TierFetch& fetch, uint32_t group) {
  const bool has_leader = std::ranges::any_of(fetch.rules, &GroupRule::needs_all);
  return has_leader ? fetch.rules[group].needs_all() : group == 0;
}

std::vector<TierPage> whole_pages(const TierFetch& fetch) {
  return whole_pages(fetch.root, fetch.parent, fetch.tokens);
}

std::vector<TierPage> whole_pages(const PageKey& root, const PageKey& parent,
                                  std::span<const TokenId> tokens) {
  std::vector<TierPage> pages;
  for (size_t at = 0; at + kPageTokens <= tokens.size(); at += kPageTokens) {
    const auto own = tokens.subspan(at, kPageTokens);
    const PageKey& before = pages.empty() ? parent : pages.back().key;
    pages.push_back({.root = root,
                     .parent = before,
                     .key = child_key(before, own),
                     .group = 0,
                     .tokens = {own.begin(), own.end()}});
  }
  return pages;
}

// A tier usually has the first pages of a prompt up to some page, which is found by bisection. The
// pages that it reads are needed anyway, unless they are computed earlier.
std::optional<uint32_t> TierLoad::next() {
  const uint64_t n_computed = front->load(std::memory_order_relaxed);
  const auto least = static_cast<uint32_t>(n_computed - std::min<uint64_t>(n_computed, first));
  present = std::max(present, std::min(least, absent));
  if (present < absent) return present + (absent - present) / 2;
  for (uint32_t page = absent; page > least; --page) {
    if (!is_done[page - 1]) return page - 1;
  }
  return std::nullopt;
}

void TierLoad::note(uint32_t page, bool is_absent) {
  is_done[page] = true;
  if (is_absent) absent = std::min(absent, std::max(page, present));
  if (!is_absent) present = std::max(present, page + 1);
}

FetchEnd end_of(Tier::Get get) {
  switch (get) {
    case Tier::Get::kFound:
      return FetchEnd::kComplete;
    case Tier::Get::kAbsent:
      return FetchEnd::kAbsent;
    case Tier::Get::kDamaged:
      return FetchEnd::kDamaged;
    case Tier::Get::kFailed:
      break;
  }
  return FetchEnd::kFailed;
}

std::optional<TierPage> best_child(Tier& tier, const PageKey& root, const PageKey& parent,
                                   uint32_t group, SharingMark reader,
                                   std::span<const TokenId> tokens) {
  std::optional<TierPage> best;
  ptrdiff_t n_best = 0;
  for (Tier::Child& child : tier.children(parent, group, reader, kMaxChildren)) {
    const ptrdiff_t n = std::ranges::mismatch(child.tokens, tokens).in1 - child.tokens.begin();
    if (n <= n_best) continue;
    n_best = n;
    best = TierPage{.root = root,
                    .parent = parent,
                    .key = child.key,
                    .group = 0,
                    .tokens = std::move(child.tokens)};
  }
  return best;
}

std::optional<WantedSnapshot> last_snapshot(Tier& tier, const TierFetch& fetch,
                                            std::span<const TierPage> pages, size_t n_whole) {
  std::optional<WantedSnapshot> best;
  for (size_t n = n_whole + 1; n-- > 0 && !best;) {
    const PageKey& parent = n > 0 ? pages[n - 1].key : fetch.parent;
    const auto rest = std::span<const TokenId>(fetch.tokens).subspan(n * kPageTokens);
    for (Tier::Child& child : tier.children(parent, kSnapshotGroup, fetch.reader, kMaxChildren)) {
      const size_t n_tokens = child.tokens.size();
      // A whole page is a page of the chain and must have been read.
      const bool is_reached = n_tokens < kPageTokens || n < n_whole;
      if (!is_reached || n_tokens > rest.size() ||
          !std::ranges::equal(child.tokens, rest.first(n_tokens)) ||
          (best && n_tokens <= best->page.tokens.size()) ||
          fetch.n_before + n * kPageTokens + n_tokens <= fetch.n_resumed) {
        continue;
      }
      best = WantedSnapshot{.n_pages = n,
                            .page = {.root = fetch.root,
                                     .parent = parent,
                                     .key = child.key,
                                     .group = kSnapshotGroup,
                                     .tokens = std::move(child.tokens)}};
    }
  }
  return best;
}

}  // namespace kvik
