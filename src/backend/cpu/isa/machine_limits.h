#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kvik {

// Measured limits of this machine with these threads, so that kernel speeds can be stated as a
// share of them. One multiply-add counts as two operations.
struct MachineLimits {
  double read_bytes_per_s = 0;  // over a buffer far larger than the caches
  double f32_ops_per_s = 0;     // fused multiply-adds
  double bf16_ops_per_s = 0;    // vdpbf16ps; 0 if not supported
  double int8_ops_per_s = 0;    // u8 × s8 dot products, with vpdpbusd if supported
};

// Takes about a second. Returns the best of several runs, because other processes can only slow it
// down.
MachineLimits measure_machine_limits(uint32_t n_threads);

// Measures the same limits for a few milliseconds at a time, between the runs that are compared
// with them, so that both are affected by other processes alike.
class MachineProbe {
 public:
  explicit MachineProbe(uint32_t n_threads);  // takes 1 GiB
  ~MachineProbe();

  void look(uint32_t n_times);  // about 8 ms each
  // Returns the means of all measurements since the last call, at least one.
  MachineLimits take();

 private:
  struct Totals;
  std::unique_ptr<Totals> totals_;
};

// Returns the maximum of each limit. `measured` is not empty.
MachineLimits best_of(std::span<const MachineLimits> measured);

namespace cpu {

// Loops of register-to-register arithmetic, which run n rounds and return the number of operations,
// and a loop that only reads n bytes, a multiple of 256, with the widest loads.
struct LimitKernels {
  double (*f32_fma)(long n);
  double (*int8_dot)(long n);
  double (*bf16_dot)(long n);  // nullptr if the set has none
  void (*read)(const void* bytes, size_t n);
};

namespace scalar {
extern const LimitKernels kLimitKernels;
}
namespace avx2 {
extern const LimitKernels kLimitKernels;
}
namespace avxvnni {  // everything else is that of avx2
double int8_dot(long n);
}
namespace avx512 {
extern const LimitKernels kLimitKernels;
}
namespace avx512bf16 {  // everything else is that of avx512
double bf16_dot(long n);
}

}  // namespace cpu
}  // namespace kvik
