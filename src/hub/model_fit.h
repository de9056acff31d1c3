#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace kvik {

// Memory that a model needs, and that this machine has.
struct ModelFit {
  uint64_t needed_bytes = 0;  // weights, buffers and a KV cache of n_ctx tokens
  uint64_t memory_bytes = 0;
  uint64_t n_ctx = 0;

  bool fits() const { return needed_bytes <= memory_bytes; }
};

// Computes the fit of a model from the headers of its files; the files have their whole size, but
// no weight is read. Errors: those of reading a model, such as kUnsupported. Any thread.
using FitCheck = std::function<Result<ModelFit>(const std::string& path)>;

}  // namespace kvik
