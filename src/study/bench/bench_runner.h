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

// Looks at the machine while it is measured.
class BenchWatcher {
 public:
  virtual ~BenchWatcher() = default;
  // Off the clock, before, between and behind the steps of a run: how long was computed since the
  // last time.
  virtual void between_steps(Duration computed) = 0;
  virtual void after_run() = 0;
};

// Drives the decoder over pages without server, scheduler or sampler, as llama-bench does.
class BenchRunner {
 public:
  static constexpr uint32_t kMaxStepTokens = 512;

  // `loaded` is borrowed. Room for the largest of `cases`.
  BenchRunner(const LoadedModel& loaded, KvType kv_type, std::span<const BenchCase> cases);

  // The sequences of a batch take turns with those that were added.
  void add_adapter(std::shared_ptr<const Adapter> adapter) {
    adapters_.push_back(std::move(adapter));
  }

  // Tokens per second of the whole batch. Each run has random tokens of its own; pages that the run
  // before filled to the same depth stay as they are.
  double run(const BenchCase& bench, uint64_t seed, BenchWatcher* watcher = nullptr);

  // The first run of all touches buffers and wakes threads: it is not on the clock.
  void warm_up(BenchCase bench);
  // Median, least and most of `repeat` runs; work and limit are left open.
  BenchResult measure(const BenchCase& bench, uint32_t repeat, BenchWatcher* watcher = nullptr);

  uint32_t n_threads() const { return loaded_.backend->n_threads(); }

  // Pages that a case takes in each layer group.
  static uint64_t n_pages(const BenchCase& bench);

  // Bytes of kPageTokens tokens in all layers.
  uint64_t page_bytes() const { return kv_.page_bytes() * kv_.layout().n_groups(); }

 private:
  struct Lane {
    std::vector<TokenId> tokens;
    uint32_t n_cached = 0;
    uint32_t n_filled = 0;  // tokens of noise that the first pages hold
    PageTable table;
  };

  void prepare(Lane& lane, const BenchCase& bench, uint64_t seed);
  void fill(Lane& lane, uint32_t depth, uint64_t seed);
  // Computes K and V of all sequences up to n_tokens, in steps of at most kMaxStepTokens rows.
  void prefill(uint32_t n_tokens, WantLogits want);
  void step(uint32_t n_new, WantLogits want);

  const LoadedModel& loaded_;
  const KvType kv_type_;
  Decoder decoder_;
  SteadyClock clock_;
  KvCache kv_;
  std::vector<Lane> lanes_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  BenchWatcher* watcher_ = nullptr;  // of the run
  Duration taken_{};                 // by steps
  Duration unwatched_{};             // since the watcher was called
};

}  // namespace kvik
