#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// The GPU of that number, as CUDA counts them. A program without a driver starts all the same, and
// hears of it here. Errors: kUnsupported where this build has no CUDA, where there is no driver or
// one too old, and where the GPU is older than sm_75; kNotFound where there is no such GPU; kIo.
Result<std::unique_ptr<Device>> open_device(uint32_t number);

}  // namespace kvik::cuda
