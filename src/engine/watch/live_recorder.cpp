#include "engine/watch/live_recorder.h"

#include <algorithm>

namespace kvik {
namespace {

std::optional<PageId> last_page(const PageTable& table) {
  for (uint32_t i = table.n_pages(); i > 0; --i) {
    if (table.holds(0, i - 1)) return table.page(0, i - 1);
  }
  return std::nullopt;
}

LiveSequence describe(const Sequence& sequence, TimePoint now) {
  return {.id = sequence.id,
          .phase =
              sequence.is_decoding() ? LiveSequence::Phase::kDecode : LiveSequence::Phase::kPrefill,
          .n_prompt = sequence.usage.prompt_tokens,
          .n_found = sequence.usage.cached_tokens,
          .n_cached = sequence.n_cached,
          .n_generated = sequence.n_generated(),
          .max_tokens = sequence.request.max_tokens,
          .head = last_page(sequence.table),
          .age = now - sequence.submitted,
          .tenant = tenant_hash(sequence.request.tenant)};
}

}  // namespace

void LiveRecorder::record_end(const Sequence& sequence, TimePoint now) {
  if (ended_.size() == kEnded) ended_.erase(ended_.begin());
  ended_.push_back(describe(sequence, now));
  ended_.back().phase = LiveSequence::Phase::kEnded;
  ended_.back().head.reset();
}

LiveView LiveRecorder::view(const EngineSnapshot& engine,
                            std::span<const std::unique_ptr<Sequence>> running,
                            PageMap::Extent extent, TimePoint now) {
  const bool is_whole = extent == PageMap::Extent::kAll;
  LiveView view{.now = now,
                .engine = engine,
                .steps = {},
                .sequences = {},
                .is_whole = is_whole,
                .pages = {}};
  const uint64_t oldest = n_steps_ > kSteps ? n_steps_ - kSteps : 0;
  for (uint64_t n = std::max(oldest, is_whole ? 0 : n_shown_) + 1; n <= n_steps_; ++n) {
    view.steps.push_back(steps_[n % kSteps]);
  }
  n_shown_ = n_steps_;
  tables_.clear();
  for (const auto& sequence : running) {
    view.sequences.push_back(describe(*sequence, now));
    tables_.push_back(&sequence->table);
  }
  view.sequences.insert(view.sequences.end(), ended_.begin(), ended_.end());
  ended_.clear();
  map_.collect(extent, tables_, view.pages);
  return view;
}

}  // namespace kvik
