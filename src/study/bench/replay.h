#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/speculate/speculation_options.h"
#include "host/load_model.h"

namespace kvik {

// A way to speculate, and what it was called.
struct ReplayMode {
  std::string name;
  SpeculationOptions options;
};

struct ReplayOptions {
  std::string file;       // lines of {"prompt", "answer"}; empty: no replay
  std::string tokenizer;  // a model whose vocabulary the texts are cut by; empty: the model's own
  std::string draft;      // a draft model; empty: none
  std::vector<ReplayMode> modes;
};

// What a way to speculate makes of one file.
struct ReplayResult {
  std::string mode;
  uint32_t batch = 1;
  uint64_t n_tokens = 0;  // on the clock, of the mode
  double tok_s = 0, tok_s_off = 0;
  double accepted_per_step = 0;  // guessed tokens that were right, a sequence and step
  double drafted_per_step = 0;
  double step_ms_p99 = 0, step_ms_p99_off = 0;  // from one token or more to the next

  double ratio() const { return tok_s / tok_s_off; }
};

// Runs the turns of a file through an engine: everything is computed as usual, but each sampled
// token is replaced by the answer's, so that acceptance is that of real text and cost that of a
// real geometry. With and without speculation turn about, in one run of the program; steps count in
// which `batch` answers are made and nothing else.
Result<std::vector<ReplayResult>> replay(const ModelOptions& model, const ReplayOptions& options,
                                         const std::vector<uint64_t>& batches, uint32_t repeat);

std::string replay_json(const std::vector<ReplayResult>& results);
std::string replay_table(const std::vector<ReplayResult>& results);

}  // namespace kvik
