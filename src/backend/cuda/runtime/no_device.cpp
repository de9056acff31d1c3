#include "backend/cuda/runtime/open_device.h"

namespace kvik::cuda {

Result<std::unique_ptr<Device>> open_device(uint32_t) {
  return fail(ErrorCode::kUnsupported,
              "this build cannot compute on a GPU: it was built without nvcc (-DKVIK_CUDA=ON)");
}

}  // namespace kvik::cuda
