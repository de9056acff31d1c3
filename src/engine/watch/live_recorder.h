#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sequence.h"
#include "engine/watch/live_view.h"
#include "engine/watch/snapshot.h"
#include "kv/page_map.h"

namespace kvik {

// Records the newest steps of an engine and makes views of them. Engine thread only.
class LiveRecorder {
 public:
  static constexpr size_t kSteps = 256;
  static constexpr size_t kEnded = 16;

  explicit LiveRecorder(const KvCache& kv) : map_(kv) { ended_.reserve(kEnded); }

  void record(const StepRecord& step, TimePoint end) {
    ++n_steps_;
    steps_[n_steps_ % kSteps] = {.number = n_steps_, .end = end, .record = step};
  }

  // Records the state of a sequence that ends. Of many between two views, the last kEnded are kept.
  void record_end(const Sequence& sequence, TimePoint now);

  // Returns a view. Each ended sequence is in one view only, and so is each step unless `extent` is
  // kAll. `extent` also selects the pages (see PageMap).
  LiveView view(const EngineSnapshot& engine, std::span<const std::unique_ptr<Sequence>> running,
                PageMap::Extent extent, TimePoint now);

 private:
  std::array<LiveStep, kSteps> steps_;
  uint64_t n_steps_ = 0;
  uint64_t n_shown_ = 0;
  std::vector<LiveSequence> ended_;
  PageMap map_;
  std::vector<const PageTable*> tables_;
};

}  // namespace kvik
