#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"
#include "study/bench/replay.h"

namespace kvik {

struct BenchOptions {
  ModelOptions model;
  uint64_t prefill = 512;
  uint64_t decode = 64;
  std::vector<uint64_t> depths = {0};
  std::vector<uint64_t> batches = {1};
  uint32_t repeat = 3;
  bool no_cache = false;
  bool fill = false;
  bool json = false;
  std::string roofline;  // a file to draw into; empty: none
  // "PATH[:SCALE]" of adapters that the sequences of a batch take turns with.
  std::vector<std::string> adapters;
  ReplayOptions replay;  // in the place of prefill and decode
};

// Measures, and says it as a table or as JSON.
Result<std::string> bench(const BenchOptions& options);

}  // namespace kvik
