#include "backend/cuda/runtime/open_device.h"

namespace kvik::cuda {

Result<std::unique_ptr<Device>> open_device(uint32_t) {
  return fail(ErrorCode::kUnsupported,
              "this build has no GPU support: rebuild with -DKVIK_CUDA=ON, which needs nvcc");
}

}  // namespace kvik::cuda
