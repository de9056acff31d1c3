#include "engine/speculate/draft_token.h"

namespace kvik {
namespace {

// Measured by replaying edits, quotes, extracted JSON and prose. The observations of a request soon
// outweigh these values.
constexpr float kUsual[kDraftSources][DraftKind::kLevels] = {
    {0.10f, 0.15f, 0.30f, 0.55f, 0.75f, 0.88f, 0.94f, 0.97f},  // kSuffix
    {0.35f, 0.40f, 0.50f, 0.60f, 0.75f, 0.88f, 0.94f, 0.97f},  // kResume
    {0.10f, 0.15f, 0.30f, 0.55f, 0.75f, 0.88f, 0.94f, 0.97f},  // kChain
    {0.10f, 0.20f, 0.35f, 0.45f, 0.55f, 0.65f, 0.80f, 0.90f},  // kModel
    {1, 1, 1, 1, 1, 1, 1, 1},                                  // kForced
};

}  // namespace

Acceptance::Acceptance() {
  for (size_t source = 0; source < kDraftSources; ++source) {
    for (uint8_t level = 0; level < DraftKind::kLevels; ++level) {
      shares_[index({static_cast<DraftSource>(source), level})] = kUsual[source][level];
    }
  }
}

}  // namespace kvik
