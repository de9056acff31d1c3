#pragma once

#include <cstdint>

namespace kvik {

// The pages of a pool by state; the four always add up to all of them.
struct PageCounts {
  uint32_t free = 0;
  uint32_t leased = 0;
  uint32_t sealed = 0;
  uint32_t cached = 0;

  uint32_t total() const { return free + leased + sealed + cached; }
};

}  // namespace kvik
