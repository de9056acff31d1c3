#include "backend/cuda/device/device.h"

#include <cstdlib>

#include "base/log.h"

namespace kvik::cuda {

void end_without_device(const Error& error) {
  log::error("{}: without the device nothing can go on", error.message);
  std::_Exit(EXIT_FAILURE);
}

void require(const Result<void>& done) {
  if (!done) end_without_device(done.error());
}

}  // namespace kvik::cuda
