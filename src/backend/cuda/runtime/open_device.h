#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Opens the GPU with that CUDA device number. A program without a driver starts nevertheless, and
// gets the error here. Errors: kUnsupported if this build has no CUDA, there is no driver or one
// too old, or the GPU is older than sm_75; kNotFound if there is no such GPU; kIo.
Result<std::unique_ptr<Device>> open_device(uint32_t number);

}  // namespace kvik::cuda
