#include "backend/cpu/isa/machine_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "base/thread_pool.h"

namespace kvik {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 30;
constexpr size_t kReadSlice = size_t{8} << 20;
constexpr size_t kSlices = kBufferBytes / kReadSlice;
constexpr long kArithmeticRounds = 4'000'000;
constexpr int kAttempts = 8;
// Amount of work in one measurement of MachineProbe: a quarter of the buffer, and a few
// milliseconds of arithmetic.
constexpr size_t kSlicesPerMeasurement = kSlices / 4;
constexpr long kRoundsPerMeasurement = kArithmeticRounds / 10;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

cpu::LimitKernels best_kernels() {
  cpu::LimitKernels best = cpu::scalar::kLimitKernels;
  for (const std::string_view isa : cpu_isa_names()) {
    if (isa == "avx2") best = cpu::avx2::kLimitKernels;
    if (isa == "avxvnni") {
      best.int8_dot = cpu::avxvnni::int8_dot;
      best.int4_dot = nullptr;
    }
    if (isa == "avx512") best = cpu::avx512::kLimitKernels;
    if (isa == "avx512bf16") best.bf16_dot = cpu::avx512bf16::bf16_dot;
    if (isa == "amx") best.bf16_dot = cpu::amx::bf16_dot;
  }
  return best;
}

// The loops that measure the limits. Owns their memory and threads.
class LimitLoops {
 public:
  explicit LimitLoops(uint32_t n_threads) : pool_(n_threads), kernels_(best_kernels()) {
    void* buffer =
        mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(buffer != MAP_FAILED);
    madvise(buffer, kBufferBytes, MADV_HUGEPAGE);
    bytes_ = static_cast<std::byte*>(buffer);
    pool_.run(kSlices,
              [&](size_t i, uint32_t) { std::memset(bytes_ + i * kReadSlice, 1, kReadSlice); });
  }
  ~LimitLoops() { munmap(bytes_, kBufferBytes); }
  LimitLoops(const LimitLoops&) = delete;
  LimitLoops& operator=(const LimitLoops&) = delete;

  const cpu::LimitKernels& kernels() const { return kernels_; }
  uint32_t n_threads() const { return pool_.n_threads(); }

  // Wakes up sleeping threads, so that this is not measured.
  void wake() {
    pool_.run(pool_.n_threads(), [](size_t, uint32_t) {});
  }

  // Reads n slices, starting where the last call stopped, and returns the seconds that it took.
  double read(size_t n) {
    const size_t first = std::exchange(next_slice_, (next_slice_ + n) % kSlices);
    const double begin = seconds_now();
    pool_.run(n, [&](size_t i, uint32_t) {
      kernels_.read(bytes_ + (first + i) % kSlices * kReadSlice, kReadSlice);
    });
    return seconds_now() - begin;
  }

  // Runs n_rounds of the kernel on each thread and returns the seconds that it took.
  double compute(double (*kernel)(long), long n_rounds) {
    const double begin = seconds_now();
    pool_.run(pool_.n_threads(), [&](size_t, uint32_t) { kernel(n_rounds); });
    return seconds_now() - begin;
  }

 private:
  ThreadPool pool_;
  const cpu::LimitKernels kernels_;
  std::byte* bytes_ = nullptr;
  size_t next_slice_ = 0;
};

double best_read(LimitLoops& loops) {
  double best = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    best = std::max(best, kBufferBytes / loops.read(kSlices));
  }
  return best;
}

double best_arithmetic(LimitLoops& loops, double (*kernel)(long)) {
  if (kernel == nullptr) return 0;
  const double ops = kernel(1) * kArithmeticRounds * loops.n_threads();
  double best = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    best = std::max(best, ops / loops.compute(kernel, kArithmeticRounds));
  }
  return best;
}

}  // namespace

MachineLimits measure_machine_limits(uint32_t n_threads) {
  LimitLoops loops(n_threads);
  MachineLimits limits = {.read_bytes_per_s = best_read(loops),
                          .f32_ops_per_s = best_arithmetic(loops, loops.kernels().f32_fma),
                          .bf16_ops_per_s = best_arithmetic(loops, loops.kernels().bf16_dot),
                          .int8_ops_per_s = best_arithmetic(loops, loops.kernels().int8_dot),
                          .int4_ops_per_s = best_arithmetic(loops, loops.kernels().int4_dot)};
  limits.int4_ops_per_s = std::max(limits.int4_ops_per_s, limits.int8_ops_per_s);
  return limits;
}

struct MachineProbe::Totals {
  explicit Totals(uint32_t n_threads) : loops(n_threads) {}

  struct Arithmetic {
    double (*kernel)(long);
    double seconds = 0;
  };
  void look() {
    loops.wake();
    read_seconds += loops.read(kSlicesPerMeasurement);
    for (Arithmetic* a : {&f32, &bf16, &int8, &int4}) {
      if (a->kernel) a->seconds += loops.compute(a->kernel, kRoundsPerMeasurement);
    }
    ++n_measurements;
  }
  double ops_per_s(const Arithmetic& a) const {
    if (!a.kernel) return 0;
    return a.kernel(1) * kRoundsPerMeasurement * loops.n_threads() * n_measurements / a.seconds;
  }

  LimitLoops loops;
  double read_seconds = 0;
  Arithmetic f32 = {loops.kernels().f32_fma};
  Arithmetic bf16 = {loops.kernels().bf16_dot};
  Arithmetic int8 = {loops.kernels().int8_dot};
  Arithmetic int4 = {loops.kernels().int4_dot};
  uint32_t n_measurements = 0;
};

MachineProbe::MachineProbe(uint32_t n_threads) : totals_(std::make_unique<Totals>(n_threads)) {}
MachineProbe::~MachineProbe() = default;

void MachineProbe::look(uint32_t n_times) {
  for (uint32_t i = 0; i < n_times; ++i) totals_->look();
}

MachineLimits MachineProbe::take() {
  Totals& t = *totals_;
  CHECK(t.n_measurements > 0);
  const double n_bytes = double{kSlicesPerMeasurement * kReadSlice} * t.n_measurements;
  const MachineLimits limits = {.read_bytes_per_s = n_bytes / t.read_seconds,
                                .f32_ops_per_s = t.ops_per_s(t.f32),
                                .bf16_ops_per_s = t.ops_per_s(t.bf16),
                                .int8_ops_per_s = t.ops_per_s(t.int8),
                                .int4_ops_per_s = t.ops_per_s(t.int4.kernel ? t.int4 : t.int8)};
  t.read_seconds = t.f32.seconds = t.bf16.seconds = t.int8.seconds = t.int4.seconds = 0;
  t.n_measurements = 0;
  return limits;
}

MachineLimits best_of(std::span<const MachineLimits> measured) {
  const auto highest = [&](double MachineLimits::*limit) {
    return std::ranges::max(measured, {}, limit).*limit;
  };
  return {.read_bytes_per_s = highest(&MachineLimits::read_bytes_per_s),
          .f32_ops_per_s = highest(&MachineLimits::f32_ops_per_s),
          .bf16_ops_per_s = highest(&MachineLimits::bf16_ops_per_s),
          .int8_ops_per_s = highest(&MachineLimits::int8_ops_per_s),
          .int4_ops_per_s = highest(&MachineLimits::int4_ops_per_s)};
}

}  // namespace kvik
