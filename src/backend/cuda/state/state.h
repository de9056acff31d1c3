#pragma once

#include <vector>

#include "backend/cpu/state/state.h"
#include "backend/cuda/device/tables.h"
#include "backend/cuda/state/state_kernels.h"
#include "backend/ops.h"

namespace kvik::cuda {

// The operations of recurrent layers on a device. Gates and steps alone are computed on the host,
// with the logarithms and exponentials of its library: a device's own are other bits, and there are
// a few of them in a row. Owns room for the matrices of tokens that leave no trace, and for gates
// on their way, which grows to the most that was needed and is never given back. One thread.
class State {
 public:
  State(Device& device, CudaMemory& memory, Tables& tables, ThreadPool& pool);

  // As Backend has them.
  void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out);
  void l2_norm(Rows x, uint32_t head_dim, float eps, float scale);
  void gates(Rows decay, Rows rate, std::span<const float> factors, std::span<const float> biases);
  void steps(Rows steps, Rows decay, std::span<const float> factors, std::span<const float> biases);
  void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, Rows out) {
    recur(kernels_.delta_rule, shape, runs, in, {}, out);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) {
    recur(kernels_.state_space, shape, runs, in, skips, out);
  }

 private:
  const PlacedState* place(std::span<const StateRun> runs, uint32_t n_rows);
  template <class Function>
  void on_host(Rows a, Rows b, const Function& function);
  void copy(Rows from, Rows to);
  void recur(const Kernel<RecurrenceTask>& kernel, const RecurrenceShape& shape,
             std::span<const StateRun> runs, const RecurrenceRows& in, std::span<const float> skips,
             Rows out);

  Device& device_;
  CudaMemory& memory_;
  Tables& tables_;
  const StateKernels& kernels_;
  cpu::State on_host_;
  Buffer scratch_, gates_;
  std::vector<float> host_gates_;
  std::vector<PlacedState> placed_;
};

}  // namespace kvik::cuda
