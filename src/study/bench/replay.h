#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/speculate/speculation_options.h"
#include "host/load_model.h"

namespace kvik {

// A mode of speculation with its name.
struct ReplayMode {
  std::string name;
  SpeculationOptions options;
};

struct ReplayOptions {
  std::string file;       // JSON lines of {"prompt", "answer"}; empty: no replay
  std::string tokenizer;  // a model whose tokenizer is used; empty: the model's own
  std::string draft;      // a draft model; empty: none
  std::vector<ReplayMode> modes;
};

// The result of one mode on one file.
struct ReplayResult {
  std::string mode;
  uint32_t batch = 1;
  uint64_t n_tokens = 0;  // measured tokens of the mode
  double tok_s = 0, tok_s_off = 0;
  double accepted_per_step = 0;  // accepted draft tokens per sequence and step
  double drafted_per_step = 0;
  // time between steps, each of which gives one or more tokens
  double step_ms_p99 = 0, step_ms_p99_off = 0;

  double ratio() const { return tok_s / tok_s_off; }
};

// Runs the turns of a file through an engine. Everything is computed as usual, but each sampled
// token is replaced by that of the recorded answer, so that the acceptance is that of real text and
// the cost that of a real geometry. Alternates between with and without speculation in one run of
// the program. Only steps that decode `batch` answers and nothing else are counted.
Result<std::vector<ReplayResult>> replay(const ModelOptions& model, const ReplayOptions& options,
                                         const std::vector<uint64_t>& batches, uint32_t repeat);

std::string replay_json(const std::vector<ReplayResult>& results);
std::string replay_table(const std::vector<ReplayResult>& results);

}  // namespace kvik
