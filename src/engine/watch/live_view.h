#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/request/request.h"
#include "engine/watch/snapshot.h"
#include "kv/page_cell.h"

namespace kvik {

// A step, numbered from 1.
struct LiveStep {
  uint64_t number = 0;
  TimePoint end;
  StepRecord record;
};

// A sequence that runs, or ended since the last view, without its tokens.
struct LiveSequence {
  enum class Phase : uint8_t { kPrefill, kDecode, kEnded };
  RequestId id{};
  Phase phase = Phase::kPrefill;
  uint32_t n_prompt = 0;
  uint32_t n_found = 0;   // of the prompt, in the cache
  uint32_t n_cached = 0;  // tokens that have K and V
  uint32_t n_generated = 0;
  uint32_t max_tokens = 0;
  std::optional<PageId> head;  // its last page, of the first layer group; none where it ended
  Duration age{};              // since it was submitted, until now or until it ended
  uint64_t tenant = 0;         // a hash
};

// What an engine at work looks like between two steps, by value, for whoever shows it. Pages are
// those that changed since the last view; is_whole: all that are not free, and whoever kept others
// forgets them.
struct LiveView {
  TimePoint now;
  EngineSnapshot engine;
  std::vector<LiveStep> steps;  // the newest, oldest first; some may have been in the last view too
  std::vector<LiveSequence> sequences;  // those that run, then those that ended
  bool is_whole = false;
  std::vector<PageCell> pages;
};

// Hears of views. Called on the engine thread, but for on_end(); must not block.
class LiveSink {
 public:
  virtual ~LiveSink() = default;
  // Shared: many look at one view.
  virtual void on_view(std::shared_ptr<const LiveView> view) = 0;
  // No more views will come: the engine stops. Any thread.
  virtual void on_end() = 0;
};

}  // namespace kvik
