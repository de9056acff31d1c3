#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/route/routed_lists.h"
#include "backend/cuda/rows/rows_kernels.h"

namespace kvik::cuda {

inline DeviceRows on_device(Rows x) { return {x.data, x.stride, x.n_rows, x.n_cols}; }

// The operations of Backend on rows, on a device. One thread.
class RowOperations {
 public:
  RowOperations(Stream& stream, CudaMemory& memory, Tables& tables, const RowKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  void copy_heads(const HeadRows& x, const HeadRows& out);
  void add_weighted(Rows x, Rows y, const WeightedRows& terms);
  // Like add_weighted(), for the outputs of routed experts (Routed::kChosen) or of the shared
  // expert (Routed::kShared).
  void add_routed(Rows x, Rows y, const RoutedLists& lists, Routed routed);
  void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out);
  void gather(Rows x, std::span<const uint32_t> rows, Rows out);
  void add(Rows x, Rows y);
  void add_bias(Rows x, const float* bias);
  void scale(Rows x, float factor);
  void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups);
  void add_routed_bias(Rows x, const float* biases, const RoutedLists& lists);
  void scale_rows(Rows x, std::span<const float> factors);
  void scale_heads(Rows x, uint32_t head_dim, Rows factors);
  void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors);
  void soft_cap(Rows x, float cap);
  void clear(Rows x);
  void gated_activation(Activation activation, Rows gate, Rows up, Rows out);
  void limited_silu(Rows gate, Rows up, float limit, Rows out);
  void largest(Rows x, std::span<std::optional<uint32_t>> out);
  void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles);

 private:
  template <class Task>
  void launch(const Kernel<Task>& kernel, uint32_t n_rows, uint32_t n_cols, const Task& task);

  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const RowKernels& kernels_;
  std::vector<uint32_t> matrix_of_row_;
  Buffer largest_;  // by row; grows to the maximum needed and is never freed
  std::vector<uint32_t> host_largest_;
};

}  // namespace kvik::cuda
