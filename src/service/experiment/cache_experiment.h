#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/experiment/power_fit.h"
#include "service/service_api.h"

namespace kvik {

// The way in which a generation obtains its K/V.
enum class CacheMode : uint8_t {
  kCold,   // computed once and stored in the cache
  kNaive,  // recomputed for each token
  kWarm,   // the prompt's K/V are cached by the cold run
};
inline constexpr CacheMode kCacheModes[] = {CacheMode::kCold, CacheMode::kNaive, CacheMode::kWarm};
std::string_view name_of(CacheMode way);  // "cold"

struct TracedToken {
  TokenId id = 0;
  // time since the previous token; for the first token, since the request's first step
  double ms = 0;
  uint32_t n_seen = 0;   // number of tokens in its context
  uint64_t kv_rows = 0;  // tokens whose K/V this run has computed so far
  uint64_t kv_bytes = 0;
  uint32_t n_other_sequences = 0;  // other sequences in the same step
};

struct TracedRun {
  CacheMode way = CacheMode::kCold;
  std::vector<TracedToken> tokens;  // each with its minimum time over all repeats
  // The following are set when the run has ended:
  Usage usage;
  uint64_t n_compared = 0;   // logits compared bytewise with those of the first cold run
  uint64_t n_different = 0;  // number of compared logits that differ

  // Fits the time in milliseconds against the number of context tokens, from token `first` on.
  // Token 0 includes the prefill and should not be part of a fit.
  std::optional<PowerFit> fit(size_t first = 1) const;

  // Takes the time of `repeat` for each token that it generated faster, and adds its comparisons.
  void merge(const TracedRun& repeat);
};

// Runs one greedy generation on a service in three ways (kCacheModes, in this order), and repeats
// all three while time remains. The time of each token is the minimum over the repeats, because
// interference from other programs can only increase it. The logits of all later runs are compared
// with those of the first run. Each cold run has its own cache salt, so it has no cached tokens.
// Used by one thread, except for the callback of set_wake().
class CacheExperiment {
 public:
  struct Options {
    std::vector<TokenId> prompt;
    uint32_t max_tokens = 64;
    std::string cache_salt;  // a new one; repeats append their number
    std::string tenant;
    int32_t priority = 0;
    std::optional<std::string> model = {};  // model name, as in a completion
    uint32_t repeats = 1;                   // maximum number of repeats of all three ways
    double max_ms = 20'000;                 // no repeat begins that is expected to end later
  };
  // Borrows the service.
  CacheExperiment(ServiceApi& service, Options options);
  ~CacheExperiment();  // cancels the current run

  // Begins the first run. Errors: those of ServiceApi::complete().
  Result<void> start();

  // Processes the events since the last call, and begins the next run if one has ended. Returns
  // true when all runs have ended. Errors: those of complete(), kUnavailable if a run was
  // cancelled, kCorrupt if the model's logits are not finite.
  Result<bool> advance();

  // Sets a callback that is called, from any thread, when advance() has events to process, and
  // immediately if it already has some. It must not call this object.
  void set_wake(std::function<void()> wake);

  const Options& options() const { return options_; }
  // Returns one run for each way that has begun; repeats are merged into them as they end.
  const std::vector<TracedRun>& runs() const { return runs_; }
  uint32_t n_repeats() const { return n_repeats_; }  // repeats begun, including the first
  bool are_bits_equal() const;

 private:
  class Recorder;
  Result<void> begin(CacheMode way);
  bool has_time_to_repeat() const;

  ServiceApi& service_;
  const Options options_;
  std::function<void()> wake_;
  std::vector<TracedRun> runs_;
  TracedRun current_;  // the run in progress
  uint32_t n_repeats_ = 1;
  double spent_ms_ = 0;  // total time of all finished runs
  // Shared with the engine, which may keep references longer than this object lives.
  // logits of the first cold run, by token
  std::shared_ptr<std::vector<std::vector<float>>> logits_;
  std::shared_ptr<Recorder> recorder_;  // recorder of the current run
  std::unique_ptr<Completion> completion_;
};

}  // namespace kvik
