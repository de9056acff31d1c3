#pragma once

#include <cstddef>

#include "base/clock.h"

namespace kvik {

// Memory that is set aside for those who cannot do without. When the system has none left, it is
// let go: whoever wants little, as the engine between two steps does, goes on, and whoever wants
// much gets std::bad_alloc, which ends one request. It takes addresses, not memory: nobody writes
// to it. One for the process, any thread.
class MemoryReserve {
 public:
  // From now on. Calls for less than it has are left alone.
  static void keep(size_t n_bytes);

  // Sets it aside again where it was let go; false where there is still no memory.
  static bool restore();
  static bool is_kept();

  // The calling thread waits for what others give back, for so long in a row, before it gets
  // std::bad_alloc: for a thread whose own failure would be everybody's.
  static void be_patient(Duration at_most);
};

}  // namespace kvik
