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

// A sequence that is running or has ended since the last view, without its tokens.
struct LiveSequence {
  enum class Phase : uint8_t { kPrefill, kDecode, kEnded };
  RequestId id{};
  Phase phase = Phase::kPrefill;
  uint32_t n_prompt = 0;
  uint32_t n_found = 0;   // cached tokens of the prompt
  uint32_t n_cached = 0;  // tokens that have K and V
  uint32_t n_generated = 0;
  uint32_t max_tokens = 0;
  std::optional<PageId> head;  // its last page in the first layer group; absent after its end
  Duration age{};              // time since its submission, until now or until its end
  uint64_t tenant = 0;         // hash
};

// The state of an engine between two steps, by value, for displays. `pages` are those that changed
// since the last view. If is_whole, they are all pages that are not free, and the receiver must
// discard earlier ones.
struct LiveView {
  TimePoint now;
  EngineSnapshot engine;
  std::vector<LiveStep> steps;  // newest steps, in ascending order; a whole view may repeat steps
  std::vector<LiveSequence> sequences;  // running ones, then ended ones
  bool is_whole = false;
  std::vector<PageCell> pages;
};

// Receives views, on the engine thread except for on_end(). Must not block.
class LiveSink {
 public:
  virtual ~LiveSink() = default;
  // The view is shared by all sinks.
  virtual void on_view(std::shared_ptr<const LiveView> view) = 0;
  // No more views will follow, because the engine stops. Any thread.
  virtual void on_end() = 0;
};

}  // namespace kvik
