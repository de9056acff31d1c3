#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kvik {

// What this machine can do at most with these threads, measured: a kernel's speed is quoted as a
// share of it. One multiply-add counts as two operations.
struct MachineLimits {
  double read_bytes_per_s = 0;  // over a buffer far larger than the caches
  double f32_ops_per_s = 0;     // fused multiply-adds
  double bf16_ops_per_s = 0;    // vdpbf16ps; 0 where the processor lacks it
  double int8_ops_per_s = 0;    // u8 × s8 dot products, with vpdpbusd where the processor has it
};

// Takes about a second. Of several tries the best counts: neighbours can only take away.
MachineLimits measure_machine_limits(uint32_t n_threads);

// Looks at the same a few milliseconds at a time, between the parts of what is held against it:
// both meet the same neighbours then, who take now more of a shared machine and now less.
class MachineProbe {
 public:
  explicit MachineProbe(uint32_t n_threads);  // takes 1 GiB
  ~MachineProbe();

  void look(uint32_t n_times);  // some 8 ms each
  // Means of all looks since the last call, one or more.
  MachineLimits take();

 private:
  struct Totals;
  std::unique_ptr<Totals> totals_;
};

// Of each limit the highest that was found. Not empty.
MachineLimits best_of(std::span<const MachineLimits> measured);

namespace cpu {

// Loops of register-to-register arithmetic; each runs n rounds and returns the operations done. And
// one that does nothing but read: n bytes, a multiple of 256, in the widest loads there are.
struct LimitKernels {
  double (*f32_fma)(long n);
  double (*int8_dot)(long n);
  double (*bf16_dot)(long n);  // nullptr where the set has none
  void (*read)(const void* bytes, size_t n);
};

namespace scalar {
extern const LimitKernels kLimitKernels;
}
namespace avx2 {
extern const LimitKernels kLimitKernels;
}
namespace avxvnni {  // the rest is that of avx2
double int8_dot(long n);
}
namespace avx512 {
extern const LimitKernels kLimitKernels;
}
namespace avx512bf16 {  // the rest is that of avx512
double bf16_dot(long n);
}

}  // namespace cpu
}  // namespace kvik
