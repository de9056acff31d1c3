#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/state/state_kernels.h"

namespace kvik::cuda {

// Operations of recurrent layers on a device. Owns a scratch buffer for the matrices of draft
// tokens, which grows to the maximum needed and is never freed. One thread.
class State {
 public:
  State(Stream& stream, CudaMemory& memory, Tables& tables, const StateKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implement the functions of Backend.
  void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out);
  void gates(Rows decay, Rows rate, std::span<const float> factors, std::span<const float> biases) {
    gate(kernels_.gates, decay, rate, {factors, biases});
  }
  void steps(Rows steps, Rows decay, std::span<const float> factors,
             std::span<const float> biases) {
    gate(kernels_.steps, steps, decay, {factors, biases});
  }
  void bounded_decays(Rows inputs, Rows decay, const DecayShape& shape) {
    gate(kernels_.bounded_decays, inputs, decay, shape);
  }
  void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, float length_eps, Rows out) {
    l2_norm(in.q, shape.key_dim, length_eps, shape.query_length());
    l2_norm(in.k, shape.key_dim, length_eps, 1.0f);
    recur(kernels_.delta_rule, shape, runs, in, {}, out);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) {
    recur(kernels_.state_space, shape, runs, in, skips, out);
  }
  void selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                      const ScanRows& in, Rows out);

  // Return the bytes of scratch memory that recurrences need within the limits, and allocate it.
  static uint64_t scratch_bytes(const WorkLimits& limits);
  void reserve(const WorkLimits& limits);

 private:
  void l2_norm(Rows x, uint32_t head_dim, float eps, float scale);
  const PlacedState* place(std::span<const StateRun> runs, uint32_t n_rows);
  void gate(const Kernel<GateTask>& kernel, Rows a, Rows b, const DecayShape& shape);
  void recur(const Kernel<RecurrenceTask>& kernel, const RecurrenceShape& shape,
             std::span<const StateRun> runs, const RecurrenceRows& in, std::span<const float> skips,
             Rows out);

  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const StateKernels& kernels_;
  Buffer scratch_;
  std::vector<PlacedState> placed_;
  uint32_t n_drafted_ = 0;  // runs with draft tokens in the last place()
};

}  // namespace kvik::cuda
