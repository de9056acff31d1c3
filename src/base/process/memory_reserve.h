#pragma once

#include <cstddef>

#include "base/clock.h"

namespace kvik {

// Address space reserved for allocations that must not fail. When the system has no memory left,
// the reserve is released: small allocations, such as those of the engine between two steps, then
// succeed, and large ones fail with std::bad_alloc, which ends one request. It takes addresses but
// no physical memory. One per process; any thread. A new-handler that the program has set before is
// called when the reserve has been used up.
class MemoryReserve {
 public:
  // Enough for what an engine and a server allocate between two steps.
  static constexpr size_t kUsualBytes = size_t{8} << 20;

  // Sets the size of the reserve, unless it is larger already, and reserves the memory. If there is
  // not enough memory for a larger reserve, the one held stays until it is released and restored.
  static void keep(size_t n_bytes);

  // Reserves the memory again if it was released. Returns false if there is not enough memory yet.
  static bool restore();
  static bool is_kept();

  // Lets the calling thread wait up to `at_most` for memory that other threads free before an
  // allocation fails. For threads whose failure would affect all requests.
  static void wait_for_memory(Duration at_most);
};

// Throws std::bad_alloc, for functions of C libraries that report that they got no memory.
[[noreturn]] void throw_bad_alloc();

}  // namespace kvik
