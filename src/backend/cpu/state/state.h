#pragma once

#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/state/state_kernels.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Operations of recurrent layers, with the kernels of one instruction set. An item of work is a
// range of channels, or a few heads, of one run. It processes its tokens in order. The result of an
// item does not depend on other items or on their number. Called from one thread; the work is
// distributed to the pool.
class State {
 public:
  State(const StateKernels& kernels, Memory& memory, ThreadPool& pool)
      : kernels_(kernels), memory_(memory), pool_(pool) {}

  // Implement Backend::scratch_bytes() and reserve().
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

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
    recur(shape, runs, in, length_eps, {},
          shape.decays_keys ? kernels_.key_delta_rule : kernels_.delta_rule, out);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) {
    recur(shape, runs, in, {}, skips, kernels_.state_space, out);
  }
  void compress(const EntryShape& shape, std::span<const StateRun> runs,
                std::span<const uint32_t> positions, Rows x, Rows out);
  void selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                      const ScanRows& in, Rows out);

 private:
  void gate(void (*kernel)(const GateTask&), Rows a, Rows b, const DecayShape& shape);
  using Kernel = void (*)(const RecurrenceTask& task);
  struct Keys;
  Keys gather(const RecurrenceShape& shape, const RecurrenceRows& in,
              std::optional<float> length_eps, uint32_t key_head, size_t first_row, uint32_t n,
              float* to) const;
  void recur(const RecurrenceShape& shape, std::span<const StateRun> runs, const RecurrenceRows& in,
             std::optional<float> length_eps, std::span<const float> skips, Kernel kernel,
             Rows out);
  template <class Body>
  void for_items(size_t n_items, size_t n_floats, const Body& body);

  void grow_scratch(size_t n_bytes);

  const StateKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  // By thread: a block of columns for draft tokens, then gathered queries and keys. Grows to the
  // maximum needed.
  Buffer scratch_;
};

}  // namespace kvik::cpu
