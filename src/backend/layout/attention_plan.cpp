#include "backend/layout/attention_plan.h"

#include <algorithm>
#include <functional>

namespace kvik {
namespace {

constexpr uint32_t kSplitPages = kSplitTokens / kPageTokens;

uint32_t first_visible_token(uint32_t position, uint32_t window) {
  return window != 0 && position + 1 > window ? position + 1 - window : 0;
}

}  // namespace

SplitRange visible_splits(std::span<const QueryRow> rows, uint32_t window) {
  const uint32_t begin = first_visible_token(rows.front().position, window);
  const uint32_t end = rows.back().sealed_end();
  if (begin >= end) return {0, 0};
  return {begin / kSplitTokens, (end - 1) / kSplitTokens + 1};
}

void AttentionPlan::group(std::span<const RowSlice> slices, uint32_t window, uint32_t n_unit_rows) {
  slices_ = slices;
  window_ = window;
  n_unit_rows_ = n_unit_rows;
  shares_ = false;
  units_.clear();
  rows_.clear();
  seen_.clear();
  splits_ = {UINT32_MAX, 0};
  for (const RowSlice& slice : slices) {
    seen_.push_back(visible_splits(slice.rows, window));
    splits_.begin = std::min(splits_.begin, seen_.back().begin);
    splits_.end = std::max(splits_.end, seen_.back().end);
  }
  if (slices.empty()) splits_ = {0, 0};
  parts_.resize(slices.size() * (splits_.end - splits_.begin));
  for (uint32_t split = splits_.begin; split < splits_.end; ++split) {
    list_members(split);
    group_members(split);
  }
}

// Lists the slices that attend to the split. Sorts them so that slices that may form a unit are
// adjacent, and among those the slice that attends furthest is first.
void AttentionPlan::list_members(uint32_t split) {
  members_.clear();
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (split < seen_[i].begin || split >= seen_[i].end) continue;
    const RowSlice& slice = slices_[i];
    const uint32_t first = first_visible_token(slice.rows.front().position, window_) / kPageTokens;
    const uint32_t last = (slice.rows.back().sealed_end() - 1) / kPageTokens;
    const uint32_t begin = std::max(first, split * kSplitPages);
    const uint32_t end = std::min(last + 1, (split + 1) * kSplitPages);
    members_.push_back({slice.pages[begin], begin, end, i, 0});
  }
  if (members_.size() < 2) return;
  std::sort(members_.begin(), members_.end(), [](const Member& a, const Member& b) {
    if (a.first_page != b.first_page) return std::less<>{}(a.first_page, b.first_page);
    return a.end != b.end ? a.end > b.end : a.slice < b.slice;
  });
}

bool AttentionPlan::fits(const SplitUnit& unit, const Member& member) const {
  const RowSlice& slice = slices_[member.slice];
  return unit.n_rows + slice.rows.size() <= n_unit_rows_ &&
         std::equal(unit.pages + member.begin, unit.pages + member.end, slice.pages + member.begin);
}

void AttentionPlan::group_members(uint32_t split) {
  const size_t first_unit = units_.size();
  size_t alike = first_unit;  // units from here on begin with the same page as the current member
  const std::byte* first_page = nullptr;
  for (Member& member : members_) {
    const RowSlice& slice = slices_[member.slice];
    if (member.first_page != first_page) alike = units_.size();
    first_page = member.first_page;
    size_t unit = alike;
    if (!slice.is_whole_run) unit = units_.size();
    while (unit < units_.size() && !fits(units_[unit], member)) ++unit;
    if (unit == units_.size()) {
      units_.push_back({split, slice.pages, member.end - split * kSplitPages, 0, 0});
    } else {
      shares_ = true;
    }
    member.unit = static_cast<uint32_t>(unit);
    units_[unit].n_rows += static_cast<uint32_t>(slice.rows.size());
  }
  place_rows(split, first_unit);
}

void AttentionPlan::place_rows(uint32_t split, size_t first_unit) {
  auto n_rows = static_cast<uint32_t>(rows_.size());
  for (size_t unit = first_unit; unit < units_.size(); ++unit) {
    units_[unit].first_row = n_rows;
    n_rows += units_[unit].n_rows;
    units_[unit].n_rows = 0;
  }
  rows_.resize(n_rows);
  for (const Member& member : members_) {
    SplitUnit& unit = units_[member.unit];
    const std::span<const QueryRow> rows = slices_[member.slice].rows;
    parts_[part_index(member.slice, split)] = {member.unit, unit.n_rows};
    std::copy(rows.begin(), rows.end(), rows_.begin() + unit.first_row + unit.n_rows);
    unit.n_rows += static_cast<uint32_t>(rows.size());
  }
}

}  // namespace kvik
