#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"
#include "study/bench/replay.h"

namespace kvik {

// The options of `kvik bench`.
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
  std::string roofline;  // output file of the roofline plot; empty: none
  // adapters ("PATH[:SCALE]"), which are assigned to the sequences of a batch in turn
  std::vector<std::string> adapters;
  ReplayOptions replay;  // if set, replaces the prefill and decode tests
};

// Runs the benchmark and returns a table or JSON.
Result<std::string> bench(const BenchOptions& options);

}  // namespace kvik
