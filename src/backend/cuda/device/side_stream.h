#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace kvik::cuda {

// Copies of a device's that stand beside its own work, in an order of their own; what has to be in
// order is said. Each copy is of a slot; to wait for a slot is to wait for its newest copy, and
// takes no time where it has none. Host bytes are the device's until then: pinned, or the calls
// that copy wait. A slot by one thread at a time; follow() and lead() by the one that launches.
// Errors: kIo where the device failed.
class SideStream {
 public:
  virtual ~SideStream() = default;  // waits for its copies

  virtual Result<void> copy_in(uint32_t slot, std::byte* to, std::span<const std::byte> host) = 0;
  virtual Result<void> copy_out(uint32_t slot, std::span<std::byte> host,
                                const std::byte* from) = 0;
  // The host waits.
  virtual Result<void> wait(uint32_t slot) = 0;

  // Copies from now on come after what the device was handed until now.
  virtual Result<void> follow() = 0;
  // What the device is handed from now on comes after the slot's newest copy.
  virtual Result<void> lead(uint32_t slot) = 0;
};

}  // namespace kvik::cuda
