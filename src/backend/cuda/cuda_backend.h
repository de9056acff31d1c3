#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// The operations on a device, with the bits of the CPU's scalar instruction set.
// n_threads: of the host, which pack weights. Errors: kIo where threads cannot be started.
Result<std::unique_ptr<Backend>> make_backend(std::unique_ptr<Device> device, uint32_t n_threads);

}  // namespace kvik::cuda
