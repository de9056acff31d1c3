#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/words.cuh"
#include "backend/cuda/matmul/activations.cuh"
#include "backend/cuda/matmul/matmul_kernels.h"
#include "backend/cuda/matmul/multiply.cuh"

namespace kvik::cuda {
namespace {

template <class Weights>
constexpr WeightKernels of_levels() {
  return {.few = {kernel_of<MultiplyTask, multiply_few<Weights, kFewRows[0]>>("multiply 1 row"),
                  kernel_of<MultiplyTask, multiply_few<Weights, kFewRows[1]>>("multiply 4 rows"),
                  kernel_of<MultiplyTask, multiply_few<Weights, kFewRows[2]>>("multiply 8 rows")},
          .many = kernel_of<MultiplyTask, multiply_many<Weights>>("multiply many rows"),
          .embed = kernel_of<EmbedTask, embed_levels<Weights>>("embed")};
}

template <class Weights>
constexpr WeightKernels of_floats() {
  return {.few = {kernel_of<MultiplyTask, multiply_floats<Weights, kFloatRows[0]>>(
                      "multiply floats, 8 rows"),
                  kernel_of<MultiplyTask, multiply_floats<Weights, kFloatRows[1]>>(
                      "multiply floats, 32 rows"),
                  {}},
          .many = {},
          .embed = kernel_of<EmbedTask, embed_floats<Weights>>("embed")};
}

constexpr MatmulKernels all_kernels() {
  MatmulKernels all = {.quantize = kernel_of<QuantTask, quantize>("quantize"), .by_type = {}};
  const auto set = [&](ElementType type, const WeightKernels& kernels) {
    all.by_type[static_cast<size_t>(type)] = kernels;
  };
  set(ElementType::kF32, of_floats<WeightsF32>());
  set(ElementType::kF16, of_floats<WeightsF16>());
  set(ElementType::kBF16, of_floats<WeightsBF16>());
  set(ElementType::kQ8_0, of_levels<WeightsQ8_0>());
  set(ElementType::kQ4_0, of_levels<WeightsQ4_0>());
  set(ElementType::kQ4_K, of_levels<WeightsQ4K>());
  set(ElementType::kQ5_K, of_levels<WeightsQ5K>());
  set(ElementType::kQ6_K, of_levels<WeightsQ6K>());
  set(ElementType::kMXFP4, of_levels<WeightsMXFP4>());
  return all;
}

}  // namespace

const MatmulKernels kMatmulKernels = all_kernels();

}  // namespace kvik::cuda
