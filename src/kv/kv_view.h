#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvik {

// Returns where a page's open page begins in the sequence's slot, which holds those of two
// neighboring pages, of open_page_bytes each.
constexpr uint64_t open_page_offset(uint64_t page, uint64_t open_page_bytes) {
  return page % 2 * open_page_bytes;
}

// A sequence's pages as the forward pass sees them: one table of page addresses per layer group.
// Token t lies in groups[g][t / kPageTokens]. Borrowed for one step.
struct KvView {
  std::span<const std::span<std::byte* const>> groups;
  std::byte* state = nullptr;  // recurrent state; null: the model has none
  std::byte* open = nullptr;   // slot of the sequence's open pages; null: there are none
};

}  // namespace kvik
