#pragma once

#include <cstddef>

#include "base/clock.h"

namespace kvik {

// Address space reserved for allocations that must not fail. When the system has no memory left,
// the reserve is released: small allocations, such as those of the engine between two steps, then
// succeed, and large ones fail with std::bad_alloc, which ends one request. It takes addresses but
// no physical memory. One per process; any thread.
class MemoryReserve {
 public:
  // Keeps a reserve from now on. Calls with less than the current size do nothing.
  static void keep(size_t n_bytes);

  // Reserves the memory again if it was released; returns false if there is still none.
  static bool restore();
  static bool is_kept();

  // Lets the calling thread wait up to `at_most` for memory that other threads free before an
  // allocation fails. For threads whose failure would affect all requests.
  static void be_patient(Duration at_most);
};

}  // namespace kvik
