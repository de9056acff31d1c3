#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Creates a backend on `device`. Its results have the same bits as those of the CPU's scalar
// instruction set. n_threads: host threads that pack weights. Errors: kIo if threads cannot be
// started.
Result<std::unique_ptr<Backend>> make_backend(std::unique_ptr<Device> device, uint32_t n_threads);

}  // namespace kvik::cuda
