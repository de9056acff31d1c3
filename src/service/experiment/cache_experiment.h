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

// How a generation comes by its K and V.
enum class CacheWay : uint8_t {
  kCold,   // computed once and kept
  kNaive,  // computed again for each token
  kWarm,   // what the cold one left, found
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
  std::vector<TracedToken> tokens;
  // When it has ended:
  Usage usage;
  uint64_t n_compared = 0;   // logits held against those of the cold run, byte for byte
  uint64_t n_different = 0;  // and those that were not the same

  // Milliseconds over tokens seen, of the tokens from number `first` on; number 0 is another kind.
  std::optional<PowerFit> fit(size_t first = 1) const;
};

// One greedy generation, three times over on a service: kCacheWays, in this order. The logits of
// every token of the later runs are compared with the first one's. Its pages have a salt of their
// own, so that the first run finds nothing. One thread, but for what set_wake() says.
class CacheExperiment {
 public:
  struct Options {
    std::vector<TokenId> prompt;
    uint32_t max_tokens = 64;
    std::string cache_salt;  // never used before
    std::string tenant;
    int32_t priority = 0;
    std::optional<std::string> model = {};  // as a completion names it
  };
  // The service is borrowed.
  CacheExperiment(ServiceApi& service, Options options);
  ~CacheExperiment();  // cancels what runs

  // Begins the first run. Errors: ServiceApi::complete.
  Result<void> start();

  // Takes what happened since the last call, and begins the next run where one has ended. True when
  // all have. Errors: those of complete(), kUnavailable where a run was cut off, kCorrupt where the
  // model's logits are no numbers.
  Result<bool> advance();

  // `wake` is called from any thread when there is something to advance(), at once where there is
  // already; it must not call back.
  void set_wake(std::function<void()> wake);

  const Options& options() const { return options_; }
  // Those that have begun.
  const std::vector<TracedRun>& runs() const { return runs_; }
  bool are_bits_equal() const;

 private:
  class Recorder;
  Result<void> begin(CacheWay way);

  ServiceApi& service_;
  const Options options_;
  std::function<void()> wake_;
  std::vector<TracedRun> runs_;
  // Shared with the engine, which may hold them longer than this lives.
  std::shared_ptr<std::vector<std::vector<float>>> logits_;  // of the cold run, by token
  std::shared_ptr<Recorder> recorder_;                       // of the run that goes on
  std::unique_ptr<Completion> completion_;
};

}  // namespace kvik
