#include "engine/schedule/snapshot_policy.h"

#include <algorithm>
#include <bit>

namespace kvik {
namespace {

constexpr uint64_t kMinGrid = 512;
// A snapshot up to this many tokens before a position serves as well as one at the position.
constexpr uint32_t kNearby = 32;
// A kind of snapshot is always kept the first kTried times, and then as long as at least one in
// kRarely is used. Otherwise it is kept once in kRarely times.
constexpr uint64_t kTried = 8;
constexpr uint64_t kRarely = 16;

}  // namespace

SnapshotPolicy::SnapshotPolicy(const KvLayout& layout) {
  if (!layout.has_state()) return;
  const uint64_t pages = layout.n_state_pages() / layout.n_groups();
  first_ = static_cast<uint32_t>(std::max(kMinGrid, pages * kPageTokens));
}

bool SnapshotPolicy::pays(SnapshotKind kind) {
  Counts& counts = of(kind);
  ++counts.n_wanted_kept;
  const bool is_kept = counts.n_kept < kTried || counts.n_found * kRarely >= counts.n_kept ||
                       counts.n_wanted_kept % kRarely == 0;
  counts.n_kept += is_kept;
  return is_kept;
}

bool SnapshotPolicy::keeps_end(uint32_t n_tokens, uint32_t n_kept) {
  return is_on() && n_tokens > n_kept && pays(SnapshotKind::kEnd);
}

bool SnapshotPolicy::is_on_grid(uint32_t n_tokens) const {
  return is_on() && n_tokens > 0 && n_tokens % first_ == 0 &&
         std::has_single_bit(n_tokens / first_);
}

bool SnapshotPolicy::keeps_within(uint32_t n_tokens) {
  return is_on_grid(n_tokens) && pays(SnapshotKind::kGrid);
}

std::vector<SnapshotMark> SnapshotPolicy::marks(const Prompt& prompt) {
  std::vector<SnapshotMark> marks;
  if (!is_on() || prompt.n_tokens < 2) return marks;
  const auto is_near = [&](uint32_t at) {
    return std::ranges::any_of(marks, [&](const SnapshotMark& mark) {
      return mark.n_tokens <= at && at - mark.n_tokens < kNearby;
    });
  };
  const auto add = [&](uint32_t at, SnapshotKind kind) {
    const bool is_there = std::ranges::count(marks, at, &SnapshotMark::n_tokens) > 0;
    if (at > prompt.n_found && at < prompt.n_tokens && !is_there) marks.push_back({at, kind});
  };
  for (const uint32_t place : prompt.wanted) add(place, SnapshotKind::kBranch);
  if (prompt.n_known >= prompt.n_found + kMinShared) add(prompt.n_known, SnapshotKind::kBranch);
  std::vector<uint32_t> ends(prompt.message_ends.begin(), prompt.message_ends.end());
  if (std::ranges::none_of(ends, [&](uint32_t at) { return at + kNearby > prompt.n_tokens; })) {
    ends.push_back(prompt.n_tokens - 1);
  }
  std::erase_if(ends, [&](uint32_t at) { return at <= prompt.n_found || is_near(at); });
  if (!ends.empty() && pays(SnapshotKind::kBorder)) {
    for (const uint32_t at : ends) add(at, SnapshotKind::kBorder);
  }
  std::vector<uint32_t> grid;
  for (uint64_t at = first_; at < prompt.n_tokens; at *= 2) {
    const auto place = static_cast<uint32_t>(at);
    if (at > prompt.n_found && !is_near(place)) grid.push_back(place);
  }
  if (!grid.empty() && pays(SnapshotKind::kGrid)) {
    for (const uint32_t at : grid) add(at, SnapshotKind::kGrid);
  }
  std::ranges::sort(marks, {}, &SnapshotMark::n_tokens);
  return marks;
}

}  // namespace kvik
