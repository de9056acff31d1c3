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
  std::string isa;         // empty: the best one available; else one of cpu_isa_names()
  HugePages huge_pages = HugePages::kOn;
};

// Returns the instruction sets compiled in that this machine supports, slowest first: always
// "scalar", then "avx2", "avx512", "avx512bf16".
std::vector<std::string_view> cpu_isa_names();

// Returns the number of processors that this process may use: the default number of threads.
uint32_t usable_processors();

// Errors: kInvalidArgument if `isa` is unknown or not supported by this machine (the message lists
// those that are), or n_threads is more than 1024.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace kvik
