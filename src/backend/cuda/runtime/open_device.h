#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Opens the GPU with that CUDA device number. The program also starts on machines without a driver;
// only this function then fails. Errors: kUnsupported if this build has no CUDA, if there is no
// driver or it is too old, or if the GPU is older than sm_75; kNotFound if there is no such GPU;
// kIo.
Result<std::unique_ptr<Device>> open_device(uint32_t number);

}  // namespace kvik::cuda
