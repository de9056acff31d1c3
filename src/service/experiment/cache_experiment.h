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

// The source of a generation's K and V.
enum class CacheWay : uint8_t {
  kCold,   // computed once and stored in the cache
  kNaive,  // computed again for each token
  kWarm,   // the prompt's are cached by the cold run
};
inline constexpr CacheWay kCacheWays[] = {CacheWay::kCold, CacheWay::kNaive, CacheWay::kWarm};
std::string_view name_of(CacheWay way);  // "cold"

struct TracedToken {
  TokenId id = 0;
  double ms = 0;         // since the token before it; the first: since the request's first step
  uint32_t n_seen = 0;   // tokens that it was made of
  uint64_t kv_rows = 0;  // tokens whose K and V were computed for this run so far
  uint64_t kv_bytes = 0;
  uint32_t n_beside = 0;  // sequences of others in the same step
};

struct TracedRun {
  CacheWay way = CacheWay::kCold;
  std::vector<TracedToken> tokens;  // with the least time of all repeats
  // Set when the run has ended:
  Usage usage;
  uint64_t n_compared = 0;   // logits compared with those of the first cold run, byte for byte
  uint64_t n_different = 0;  // number of those that differ

  // Fits milliseconds over tokens seen, of the tokens from number `first` on. Token 0 includes the
  // prefill and belongs to no fit.
  std::optional<PowerFit> fit(size_t first = 1) const;

  // Takes the other run's time for each token that it made faster, and adds its comparisons.
  void merge(const TracedRun& repeat);
};

// Runs one greedy generation on a service in three ways (kCacheWays, in this order), and repeats
// all three while there is time: each token's time is the least of the repeats, since other
// programs only ever make it longer. The logits of all later runs are compared with those of the
// first one. Each cold run has a cache salt of its own, so that it has no cached tokens.
// Used by one thread, except where set_wake() says otherwise.
class CacheExperiment {
 public:
  struct Options {
    std::vector<TokenId> prompt;
    uint32_t max_tokens = 64;
    std::string cache_salt;  // never used before; repeats append their number
    std::string tenant;
    int32_t priority = 0;
    std::optional<std::string> model = {};  // as a completion names it
    uint32_t repeats = 1;                   // of all three ways, at most
    double most_ms = 20'000;                // no repeat begins that would probably end later
  };
  // The service is borrowed.
  CacheExperiment(ServiceApi& service, Options options);
  ~CacheExperiment();  // cancels what runs

  // Begins the first run. Errors: ServiceApi::complete.
  Result<void> start();

  // Takes what happened since the last call, and begins the next run where one has ended. Returns
  // true when all runs have ended. Errors: those of complete(), kUnavailable where a run was cut
  // off, kCorrupt where the model's logits are no numbers.
  Result<bool> advance();

  // `wake` is called from any thread when there is something to advance(), at once where there is
  // already; it must not call back.
  void set_wake(std::function<void()> wake);

  const Options& options() const { return options_; }
  // One run for each way that has begun; repeats are merged into them as they end.
  const std::vector<TracedRun>& runs() const { return runs_; }
  uint32_t n_repeats() const { return n_repeats_; }  // begun, the first one included
  bool are_bits_equal() const;

 private:
  class Recorder;
  Result<void> begin(CacheWay way);
  bool has_time_to_repeat() const;

  ServiceApi& service_;
  const Options options_;
  std::function<void()> wake_;
  std::vector<TracedRun> runs_;
  TracedRun current_;  // the run that is not finished
  uint32_t n_repeats_ = 1;
  double spent_ms_ = 0;  // of all finished runs
  // Shared with the engine, which may hold them longer than this lives.
  std::shared_ptr<std::vector<std::vector<float>>> logits_;  // of the cold run, by token
  std::shared_ptr<Recorder> recorder_;                       // of the current run
  std::unique_ptr<Completion> completion_;
};

}  // namespace kvik
