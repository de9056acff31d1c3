#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kvik {

// Measured limits of this machine with a number of threads. The speed of kernels can be stated as a
// share of them. A multiply-add counts as two operations.
struct MachineLimits {
  double read_bytes_per_s = 0;  // over a buffer far larger than the caches
  double f32_ops_per_s = 0;     // fused multiply-adds
  double bf16_ops_per_s = 0;    // tdpbf16ps or vdpbf16ps; 0 if neither is supported
  double int8_ops_per_s = 0;    // dot products of u8 and s8, with vpdpbusd if it is supported
  // Dot products in which the levels of one operand have four bits, so that eight pairs of products
  // add up in 16 bits. As int8 where vpdpbusd is supported.
  double int4_ops_per_s = 0;
};

// Measures the limits, which takes about a second. Returns the best of several runs, because other
// processes can only slow a run down.
MachineLimits measure_machine_limits(uint32_t n_threads);

// Measures the limits for a few milliseconds at a time. Called between the runs that are compared
// with the limits, so that other processes affect both in the same way.
class MachineProbe {
 public:
  explicit MachineProbe(uint32_t n_threads);  // allocates 1 GiB
  ~MachineProbe();

  void look(uint32_t n_times);  // measures n_times, about 8 ms each
  // Returns the means over all measurements since the last call. There must be at least one.
  MachineLimits take();

 private:
  struct Totals;
  std::unique_ptr<Totals> totals_;
};

// Returns the maximum of each limit. `measured` must not be empty.
MachineLimits best_of(std::span<const MachineLimits> measured);

namespace cpu {

// Loops that measure one instruction set. The arithmetic loops work on registers, run n rounds and
// return the number of operations. read() only reads n bytes, a multiple of 256, with the widest
// loads.
struct LimitKernels {
  double (*f32_fma)(long n);
  double (*int8_dot)(long n);
  double (*int4_dot)(long n);  // nullptr if it is not faster than int8_dot
  double (*bf16_dot)(long n);  // nullptr if the set has no such instruction
  void (*read)(const void* bytes, size_t n);
};

namespace scalar {
extern const LimitKernels kLimitKernels;
}
namespace avx2 {
extern const LimitKernels kLimitKernels;
}
namespace avxvnni {  // its other kernels are those of avx2
double int8_dot(long n);
}
namespace avx512 {
extern const LimitKernels kLimitKernels;
}
namespace avx512bf16 {  // its other kernels are those of avx512
double bf16_dot(long n);
}
namespace amx {  // the same
double bf16_dot(long n);
}

}  // namespace cpu
}  // namespace kvik
