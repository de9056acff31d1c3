#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace kvik::cuda {

// A stream of copies concurrent with the device's work; follow() and lead() establish an order.
// Each copy belongs to a slot; waiting for a slot waits for its newest copy, and returns at once if
// there is none. Host bytes belong to the device until then: they are pinned, or the copying calls
// wait. A slot is used by one thread at a time; follow() and lead() by the launching thread.
// Errors: kIo if the device failed.
class SideStream {
 public:
  virtual ~SideStream() = default;  // waits for its copies

  virtual Result<void> copy_in(uint32_t slot, std::byte* to, std::span<const std::byte> host) = 0;
  virtual Result<void> copy_out(uint32_t slot, std::span<std::byte> host,
                                const std::byte* from) = 0;
  // Waits on the host.
  virtual Result<void> wait(uint32_t slot) = 0;

  // Orders later copies after all work submitted to the device so far.
  virtual Result<void> follow() = 0;
  // Orders later device work after the slot's newest copy.
  virtual Result<void> lead(uint32_t slot) = 0;
};

}  // namespace kvik::cuda
