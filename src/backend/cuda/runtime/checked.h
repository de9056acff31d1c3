#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "base/result.h"

namespace kvik::cuda {

inline Result<void> checked(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::kIo,
              fmt::format("the GPU failed ({}): {}", what, cudaGetErrorString(error)));
}

}  // namespace kvik::cuda
