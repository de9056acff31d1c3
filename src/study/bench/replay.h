#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/speculate/speculation_options.h"
#include "host/load_model.h"

namespace kvik {

// A mode of speculation and its name.
struct ReplayMode {
  std::string name;
  SpeculationOptions options;
};

// The options of a replay.
struct ReplayOptions {
  std::string file;       // file of JSON lines {"prompt", "answer"}; empty: no replay
  std::string tokenizer;  // model whose tokenizer is used; empty: the model's own
  std::string draft;      // draft model; empty: none
  std::vector<ReplayMode> modes;
};

// The result of one mode and batch size.
struct ReplayResult {
  std::string mode;
  uint32_t batch = 1;
  uint64_t n_tokens = 0;  // number of tokens measured in this mode
  double tok_s = 0, tok_s_off = 0;
  double accepted_per_step = 0;  // accepted draft tokens per sequence and step
  double drafted_per_step = 0;
  // 99th percentile of the time of a step, with and without speculation; a step yields one or more
  // tokens
  double step_ms_p99 = 0, step_ms_p99_off = 0;

  double ratio() const { return tok_s / tok_s_off; }
};

// Runs recorded conversations through an engine. Everything is computed as usual, but each sampled
// token is replaced by that of the recorded answer, so that the acceptance rate is that of real
// text and the cost is that of the model. One run of the program alternates between speculation and
// no speculation. Only steps that decode `batch` answers and nothing else are counted.
Result<std::vector<ReplayResult>> replay(const ModelOptions& model, const ReplayOptions& options,
                                         const std::vector<uint64_t>& batches, uint32_t repeat);

std::string replay_json(const std::vector<ReplayResult>& results);
std::string replay_table(const std::vector<ReplayResult>& results);

}  // namespace kvik
