#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/host_memory.h"

namespace kvik {

struct CpuBackendOptions {
  uint32_t n_threads = 0;  // 0: one per processor that this process may use
  std::string isa;         // empty: the best this machine has; else one of cpu_isa_names()
  HugePages huge_pages = HugePages::kOn;
};

// Instruction sets whose kernels are in this binary and that this machine can run, slowest first:
// "scalar" always, then "avx2", "avx512", "avx512bf16".
std::vector<std::string_view> cpu_isa_names();

// Processors that this process may use: as many threads as n_threads 0 means.
uint32_t usable_processors();

// Errors: kInvalidArgument where `isa` is unknown or not on this machine (the message lists those
// that are), or n_threads is more than 1024.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace kvik
