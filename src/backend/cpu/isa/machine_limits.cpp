#include "backend/cpu/isa/machine_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "base/thread_pool.h"

namespace kvik {
namespace {

constexpr size_t kReadBytes = size_t{1} << 30;
constexpr size_t kReadSlice = size_t{8} << 20;
constexpr long kArithmeticRounds = 4'000'000;
constexpr int kAttempts = 8;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double measure_reads(ThreadPool& pool, const cpu::LimitKernels& kernels) {
  void* buffer =
      mmap(nullptr, kReadBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(buffer != MAP_FAILED);
  madvise(buffer, kReadBytes, MADV_HUGEPAGE);
  auto* bytes = static_cast<std::byte*>(buffer);
  const size_t n_slices = kReadBytes / kReadSlice;
  pool.run(n_slices,
           [&](size_t i, uint32_t) { std::memset(bytes + i * kReadSlice, 1, kReadSlice); });
  double best = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double begin = seconds_now();
    pool.run(n_slices,
             [&](size_t i, uint32_t) { kernels.read(bytes + i * kReadSlice, kReadSlice); });
    best = std::max(best, kReadBytes / (seconds_now() - begin));
  }
  munmap(buffer, kReadBytes);
  return best;
}

double measure_arithmetic(ThreadPool& pool, double (*kernel)(long)) {
  if (kernel == nullptr) return 0;
  double best = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double begin = seconds_now();
    const double ops = kernel(1) * kArithmeticRounds * pool.n_threads();
    pool.run(pool.n_threads(), [&](size_t, uint32_t) { kernel(kArithmeticRounds); });
    best = std::max(best, ops / (seconds_now() - begin));
  }
  return best;
}

cpu::LimitKernels best_kernels() {
  cpu::LimitKernels best = cpu::scalar::kLimitKernels;
  for (const std::string_view isa : cpu_isa_names()) {
    if (isa == "avx2") best = cpu::avx2::kLimitKernels;
    if (isa == "avxvnni") best.int8_dot = cpu::avxvnni::int8_dot;
    if (isa == "avx512") best = cpu::avx512::kLimitKernels;
    if (isa == "avx512bf16") best.bf16_dot = cpu::avx512bf16::bf16_dot;
  }
  return best;
}

}  // namespace

MachineLimits measure_machine_limits(uint32_t n_threads) {
  ThreadPool pool(n_threads);
  const cpu::LimitKernels kernels = best_kernels();
  return {.read_bytes_per_s = measure_reads(pool, kernels),
          .f32_ops_per_s = measure_arithmetic(pool, kernels.f32_fma),
          .bf16_ops_per_s = measure_arithmetic(pool, kernels.bf16_dot),
          .int8_ops_per_s = measure_arithmetic(pool, kernels.int8_dot)};
}

MachineLimits best_of(std::span<const MachineLimits> measured) {
  const auto highest = [&](double MachineLimits::*limit) {
    return std::ranges::max(measured, {}, limit).*limit;
  };
  return {.read_bytes_per_s = highest(&MachineLimits::read_bytes_per_s),
          .f32_ops_per_s = highest(&MachineLimits::f32_ops_per_s),
          .bf16_ops_per_s = highest(&MachineLimits::bf16_ops_per_s),
          .int8_ops_per_s = highest(&MachineLimits::int8_ops_per_s)};
}

}  // namespace kvik
