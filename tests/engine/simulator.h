#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/token_id.h"
#include "engine/schedule/scheduler.h"

namespace kvik {

// The costs of a step on a simulated machine. The defaults are those of tinyllama-1.1b in Q4_0 with
// int8 pages on two cores with AVX-512: 500 prompt tokens per second, 18 ms for a decode step and
// 1.5 ms for each further sequence.
struct SimulatedMachine {
  double step_ms = 16.5;
  double decode_row_ms = 1.5;
  double prefill_row_ms = 1.9;
  double kv_token_ms = 7.7e-4;  // per cached token read, once for each sequence
  double pair_ms = 2.8e-4;      // per (query, key) pair of a prompt
  double speed = 1;
  double noise = 0.05;          // relative standard deviation
  double outlier_share = 0.01;  // share of slow steps
  double outlier_factor = 3;    // time of a slow step, relative to a normal one
};

// Consecutive token ids.
struct TokenRun {
  TokenId first = 0;
  uint32_t n = 0;
};

// A request with the tokens of a recorded trace.
struct ScriptedTurn {
  double at_s = 0;     // time since the conversation began, in the recording
  double pause_s = 0;  // time since the answer to the turn before
  std::vector<TokenRun> prompt;
  TokenRun answer;

  uint32_t n_prompt() const;
  std::vector<TokenId> prompt_tokens() const;
};

// A client that sends one request or holds a conversation. Each turn sends all earlier text.
struct Conversation {
  std::string tenant = {};
  double begin_s = 0;
  uint32_t prefix = 0;  // conversations with the same number begin with the same tokens
  uint32_t prefix_tokens = 0;
  uint32_t own_tokens = 64;     // new tokens of each turn
  uint32_t answer_tokens = 64;  // generated tokens
  uint32_t max_tokens = 64;     // limit that the scheduler knows
  uint32_t n_turns = 1;
  double think_s = 0;                     // time between an answer and the next turn
  std::vector<ScriptedTurn> script = {};  // if not empty, its turns; only tenant and begin_s apply
};

enum class SimulatedPolicy { kKvik, kFcfs };

struct SimulationOptions {
  SimulatedMachine machine = {};
  SimulatedPolicy policy = SimulatedPolicy::kKvik;
  SchedulerOptions scheduler = {.itl_target = std::chrono::milliseconds(50)};
  uint32_t n_pages = 11000;  // pages of 32 tokens: 4 GiB of tinyllama's int8 pages
  uint32_t max_queue = 1024;
  double ttft_slo_s = 3;
  double itl_slo_s = 0.1;  // for 95% of a request's tokens
  uint64_t seed = 1;
};

// The results of all requests, or of one tenant.
struct SimulatedOutcome {
  uint64_t n_requests = 0, n_refused = 0, n_good = 0;  // good: within both SLOs
  std::vector<double> ttft_s;
  std::vector<float> itl_s;
  std::vector<double> whole_s;  // from the first request of a conversation to its last token

  double ttft_at(double share) const;  // quantile
  double itl_at(double share) const;
  double whole_at(double share) const;
};

struct SimulationResult {
  SimulatedOutcome all;
  std::vector<std::pair<std::string, SimulatedOutcome>> by_tenant;
  double simulated_s = 0;
  uint64_t n_steps = 0;
  uint64_t n_preemptions = 0;
  uint64_t prompt_tokens = 0, computed_tokens = 0, found_tokens = 0, generated_tokens = 0;
  uint64_t longest_wait_steps = 0;  // steps a running prompt waited for its next row

  double goodput() const { return static_cast<double>(all.n_good) / simulated_s; }  // requests/s
  const SimulatedOutcome& of(const std::string& tenant) const;
};

// Runs the real scheduler with the real page pool, prefix index and queue limit until all
// conversations have ended. Pages have no contents, the clock is simulated, and steps have the
// machine's costs. The same seed gives the same result. CHECKs that no page is lost and that every
// request ends exactly once.
SimulationResult simulate(std::vector<Conversation> conversations,
                          const SimulationOptions& options);

// Conversations that start in a Poisson process of `rate` per second. Each is a copy of `like` with
// one of n_prefixes prefixes.
struct PoissonTraffic {
  Conversation like = {};
  double rate = 1, seconds = 60;
  uint32_t n_prefixes = 1;
  uint64_t seed = 1;
};
std::vector<Conversation> poisson(const PoissonTraffic& traffic);

}  // namespace kvik
