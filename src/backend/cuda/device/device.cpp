#include "backend/cuda/device/device.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/log.h"

namespace kvik::cuda {

void exit_after_device_error(const Error& error) {
  // Threads of tiers may call this at the same time. Only the first one logs the error.
  static std::atomic_flag is_said;
  while (is_said.test_and_set()) pause();
  log::error("{}: cannot continue without the GPU", error.message);
  std::_Exit(EXIT_FAILURE);
}

void require(const Result<void>& done) {
  if (!done) exit_after_device_error(done.error());
}

}  // namespace kvik::cuda
