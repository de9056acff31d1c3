#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace kvik::cuda {

// A stream of copies that runs in parallel with the device's work. follow() and lead() order the
// two.
//
// Each copy belongs to a slot. wait() waits for the slot's newest copy and returns at once if there
// is none. Until then the host bytes must not be used. Copies are asynchronous if the host bytes
// are pinned; otherwise copy_in() and copy_out() may wait.
//
// A slot is used by one thread at a time. follow() and lead() are called on the thread that
// launches kernels. Errors: kIo if the device failed.
class SideStream {
 public:
  virtual ~SideStream() = default;  // waits for copies in progress

  virtual Result<void> copy_in(uint32_t slot, std::byte* to, std::span<const std::byte> host) = 0;
  virtual Result<void> copy_out(uint32_t slot, std::span<std::byte> host,
                                const std::byte* from) = 0;
  // Blocks the calling thread until the slot's newest copy is done.
  virtual Result<void> wait(uint32_t slot) = 0;

  // Orders later copies after all work submitted to the device so far.
  virtual Result<void> follow() = 0;
  // Orders later device work after the slot's newest copy.
  virtual Result<void> lead(uint32_t slot) = 0;
};

}  // namespace kvik::cuda
