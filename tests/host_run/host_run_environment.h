#pragma once

#include <cstdint>

namespace kvik::host_run {

// The environment of a device of the host run: the memory held by others, and whether its amount is
// stable. By default there are no others. The device calls it from one thread at a time.
class HostRunEnvironment {
 public:
  virtual ~HostRunEnvironment() = default;

  // Before each launch. A device that is gone stays so.
  virtual bool is_device_there() { return true; }

  virtual uint64_t held_by_others() { return 0; }
  // Takes memory of the device. Returns whether it had this much left of its all_bytes.
  virtual bool take([[maybe_unused]] uint64_t bytes, [[maybe_unused]] uint64_t all_bytes) {
    return true;
  }
  virtual void give_back([[maybe_unused]] uint64_t bytes) {}
};

}  // namespace kvik::host_run
