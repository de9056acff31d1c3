#pragma once

#include "base/clock.h"

namespace kvik {

// What a page went through since it was last taken from the free ones.
struct PageStory {
  TimePoint taken;
  TimePoint last_used;      // when somebody began to lease it
  bool is_saved = false;    // a slower tier was given its contents
  bool is_fetched = false;  // it came from there
};

}  // namespace kvik
