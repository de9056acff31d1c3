#pragma once

#include "base/clock.h"

namespace kvik {

// History of a page since it was last taken from the free pages.
struct PageHistory {
  TimePoint taken;
  TimePoint last_used;      // start of the newest lease; its end once it has ended
  bool is_saved = false;    // a tier has stored its contents
  bool is_fetched = false;  // it was fetched from a tier
};

}  // namespace kvik
