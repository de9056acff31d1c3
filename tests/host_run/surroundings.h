#pragma once

#include <cstdint>

namespace kvik::host_run {

// What is around a device of the host run: who else holds its memory, and whether it stays there.
// Without more, nobody does and it stays. The device asks one thread at a time.
class Surroundings {
 public:
  virtual ~Surroundings() = default;

  // Before each launch. A device that is gone stays so.
  virtual bool is_device_there() { return true; }

  virtual uint64_t held_by_others() { return 0; }
  // Whether the device had so much left of its all_bytes, which it then has no more.
  virtual bool take([[maybe_unused]] uint64_t bytes, [[maybe_unused]] uint64_t all_bytes) {
    return true;
  }
  virtual void give_back([[maybe_unused]] uint64_t bytes) {}
};

}  // namespace kvik::host_run
