#pragma once

#include <optional>
#include <span>

#include "engine/sample/sampler.h"
#include "engine/speculate/draft_token.h"

namespace kvik {

struct Sequence;

// A draft token of a draft model or MTP head.
struct DrawnDraftToken {
  DraftToken draft_token;  // of DraftSource::kModel
  bool is_sure = false;    // probable enough to draft another token after it
};

// Draws the token that follows the sequence and its draft from the logits, with the random draw
// that the token itself will have. Returns std::nullopt if no token has a finite logit.
std::optional<DrawnDraftToken> draw_draft_token(Sampler& sampler, const Sequence& sequence,
                                                const Draft& draft, std::span<const float> logits);

// The time of drafting one token, smoothed.
class DraftTime {
 public:
  void observe(double ms) { ms_ += (ms_ > 0 ? kRate : 1) * (ms - ms_); }
  double ms() const { return ms_; }

 private:
  static constexpr double kRate = 0.1;  // weight of a new observation
  double ms_ = 0;
};

}  // namespace kvik
