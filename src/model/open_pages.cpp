#include "model/open_pages.h"

#include <algorithm>

#include "base/check.h"
#include "model/layer_groups.h"

namespace kvik {

bool uses_open_pages(const ModelConfig& config, KvType type) {
  return has_open_pages(type) && !config.has_state();
}

uint64_t open_page_bytes(const ModelConfig& config, KvType type, const Backend& backend) {
  if (!uses_open_pages(config, type)) return 0;
  return group_layers(config).n_groups() * kv_page_bytes(config, kOpenType, backend);
}

// The first and the last page of a sequence have at least one row each, and every page between them
// has kPageTokens rows.
uint32_t OpenPages::n_arena_pages(uint32_t n_rows_max) {
  return (n_rows_max - std::min(n_rows_max, 2u)) / kPageTokens;
}

uint64_t OpenPages::arena_bytes(const ModelConfig& config, KvType type, const Backend& backend,
                                uint32_t n_rows_max) {
  return n_arena_pages(n_rows_max) * open_page_bytes(config, type, backend);
}

OpenPages::OpenPages(const ModelConfig& config, Backend& backend, uint32_t n_rows_max)
    : memory_(backend.memory()),
      n_groups_(group_layers(config).n_groups()),
      group_bytes_(kv_page_bytes(config, kOpenType, backend)),
      page_bytes_(n_groups_ * group_bytes_),
      of_(n_groups_) {
  const uint32_t n_arena = n_arena_pages(n_rows_max);
  if (n_arena > 0) arena_ = memory_.allocate(n_arena * page_bytes_);
  starts_.reserve(n_rows_max);
  for (auto& addresses : of_) addresses.reserve(n_rows_max);  // spans into them must stay valid
}

void OpenPages::begin_step() {
  n_used_ = 0;
  for (auto& addresses : of_) addresses.clear();
}

void OpenPages::add(std::byte* slot, uint32_t first_position, uint32_t n_rows) {
  CHECK(slot && n_rows > 0);
  first_page_ = first_position / kPageTokens;
  const uint32_t last_page = (first_position + n_rows - 1) / kPageTokens;
  const bool begins_inside = first_position % kPageTokens != 0;
  std::byte* first = page_in_slot(slot, first_page_);
  // If the first and the last page would use the same half of the slot, the first one moves to the
  // other half. That half holds the page before the first one, which is no longer needed.
  if (last_page > first_page_ && (last_page - first_page_) % 2 == 0) {
    std::byte* const moved = page_in_slot(slot, first_page_ + 1);
    if (begins_inside) memory_.copy(moved, first, page_bytes_);
    first = moved;
  }
  starts_.assign(1, first);
  for (uint32_t page = first_page_ + 1; page < last_page; ++page) {
    CHECK((n_used_ + 1) * page_bytes_ <= arena_.size());
    starts_.push_back(arena_.data() + n_used_++ * page_bytes_);
  }
  if (last_page > first_page_) starts_.push_back(page_in_slot(slot, last_page));
  if (!begins_inside) memory_.clear(starts_.front(), page_bytes_);
  if (last_page > first_page_) memory_.clear(starts_.back(), page_bytes_);

  begin_ = of_.front().size();
  for (uint32_t g = 0; g < n_groups_; ++g) {
    CHECK(begin_ + starts_.size() <= of_[g].capacity());
    for (std::byte* const start : starts_) of_[g].push_back(start + g * group_bytes_);
  }
}

void OpenPages::add_computed(std::byte* slot, uint32_t position) {
  first_page_ = position / kPageTokens;
  begin_ = of_.front().size();
  for (uint32_t g = 0; g < n_groups_; ++g) {
    CHECK(begin_ < of_[g].capacity());
    of_[g].push_back(page_in_slot(slot, first_page_) + g * group_bytes_);
  }
}

std::span<std::byte* const> OpenPages::pages(uint32_t group, uint32_t position) const {
  return std::span(of_[group]).subspan(begin_ + position / kPageTokens - first_page_);
}

}  // namespace kvik
