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
  uint32_t n_threads = 0;  // 0: usable_cores()
  // An instruction set from cpu_isa_names(); empty: the best one.
  std::string isa;
  HugePages huge_pages = HugePages::kOn;
};

// Returns the names of the instruction sets that are compiled in and that this machine supports,
// slowest first: always "scalar", then "avx2", "avxvnni", "avx512", "avx512bf16" and "amx" as far
// as they are supported.
std::vector<std::string_view> cpu_isa_names();

// Creates the backend. Errors: kInvalidArgument if `isa` is unknown or not supported by this
// machine (the message lists the supported ones), or if n_threads is more than 1024; those of
// starting threads.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace kvik
