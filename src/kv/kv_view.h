#pragma once

#include <cstddef>
#include <span>

namespace kvik {

// A sequence's pages as the forward pass sees them: one table of page addresses per layer group.
// Token t lies in groups[g][t / kPageTokens]. Borrowed for one step.
struct KvView {
  std::span<const std::span<std::byte* const>> groups;
  std::byte* state = nullptr;  // of the layers that remember in one; null: no layer does
  std::byte* open = nullptr;   // its slot for open pages; null: there are none
};

}  // namespace kvik
