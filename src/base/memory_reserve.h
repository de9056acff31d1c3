#pragma once

#include <cstddef>

namespace kvik {

// Memory that is set aside. When the system has none left, it is let go: callers that want little,
// as the engine does between two steps, go on, and those that want much get std::bad_alloc, which
// ends one request. It takes addresses, not memory: nothing writes to it. One for the process, any
// thread.
class MemoryReserve {
 public:
  // From now on. Calls for less than it has are left alone.
  static void keep(size_t n_bytes);

  // Sets it aside again where it was let go, and likewise what the calling thread keeps for itself;
  // false where there is still no memory.
  static bool restore();

  // Keeps half a MiB more for small requests of the calling thread alone, once the other reserve is
  // gone: for a thread whose libraries allocate in destructors, where std::bad_alloc ends the
  // process.
  static void keep_for_this_thread();
};

}  // namespace kvik
