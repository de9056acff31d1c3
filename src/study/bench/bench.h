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
  std::string roofline;  // output file of the roofline plot; empty: none
  // Adapters ("PATH[:SCALE]"), assigned to the sequences of a batch in turn.
  std::vector<std::string> adapters;
  ReplayOptions replay;  // replaces prefill and decode if set
};

// Runs the benchmark and returns a table or JSON.
Result<std::string> bench(const BenchOptions& options);

}  // namespace kvik
