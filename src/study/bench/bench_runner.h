#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "host/load_model.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"
#include "study/bench/bench_case.h"

namespace kvik {

// Observes the machine during a measurement.
class BenchWatcher {
 public:
  virtual ~BenchWatcher() = default;
  // Called before, between and after the steps of a run, outside the measured time. `computed`: the
  // measured time since the last call.
  virtual void between_steps(Duration computed) = 0;
  virtual void after_run() = 0;
};

// Runs the decoder on KV pages without server, scheduler or sampler, as llama-bench does. Use from
// one thread.
class BenchRunner {
 public:
  static constexpr uint32_t kMaxStepTokens = 512;

  // Borrows `loaded`. Allocates memory for the largest of `cases`.
  BenchRunner(const LoadedModel& loaded, KvType kv_type, std::span<const BenchCase> cases);

  // Adds an adapter. Adapters are assigned to the sequences of a batch in turn.
  void add_adapter(std::shared_ptr<const Adapter> adapter) {
    adapters_.push_back(std::move(adapter));
  }

  // Runs a test and returns the tokens per second of the whole batch. Each run uses its own random
  // tokens. Pages that the previous run filled to the same depth are reused.
  double run(const BenchCase& bench, uint64_t seed, BenchWatcher* watcher = nullptr);

  // Runs once without measuring, to touch buffers and wake threads.
  void warm_up(BenchCase bench);
  // Returns median, minimum and maximum of `repeat` runs. `work` and `limit` are not set.
  BenchResult measure(const BenchCase& bench, uint32_t repeat, BenchWatcher* watcher = nullptr);

  uint32_t n_threads() const { return loaded_.backend->n_threads(); }

  // Returns the number of pages that a test needs in each layer group.
  static uint64_t n_pages(const BenchCase& bench);

  // Returns the bytes of kPageTokens tokens in all layers.
  uint64_t page_bytes() const { return kv_.page_bytes() * kv_.layout().n_groups(); }

 private:
  // A sequence of the batch.
  struct Lane {
    std::vector<TokenId> tokens;
    uint32_t n_cached = 0;
    uint32_t n_filled = 0;  // number of tokens of noise in the first pages
    PageTable table;
  };

  void prepare(Lane& lane, const BenchCase& bench, uint64_t seed);
  void fill(Lane& lane, uint32_t depth, uint64_t seed);
  // Computes K and V of all sequences up to n_tokens, in steps of at most kMaxStepTokens rows.
  void prefill(uint32_t n_tokens, OutputRows want);
  void step(uint32_t n_new, OutputRows want);

  const LoadedModel& loaded_;
  const KvType kv_type_;
  Decoder decoder_;
  SteadyClock clock_;
  KvCache kv_;
  std::vector<Lane> lanes_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  BenchWatcher* watcher_ = nullptr;  // watcher of the current run; may be null
  Duration taken_{};                 // total time of the steps
  Duration unwatched_{};             // measured time since the last call of the watcher
};

}  // namespace kvik
