#include "engine/speculate/drawn_draft_token.h"

#include <algorithm>
#include <cmath>

#include "engine/sample/log_softmax.h"
#include "engine/sequence.h"

namespace kvik {
namespace {

constexpr float kMinConfidence = 1.0f / 8;

}  // namespace

std::optional<DrawnDraftToken> draw_draft_token(Sampler& sampler, const Sequence& sequence,
                                                const Draft& draft, std::span<const float> logits) {
  float mirostat_mu = sequence.mirostat_mu;  // only the token itself changes the state
  const auto token = sampler.sample({.logits = logits,
                                     .params = sequence.request.sampling,
                                     .history = sequence.history(),
                                     .masked = {},
                                     .position = sequence.n_tokens() + draft.size(),
                                     .mirostat_mu = &mirostat_mu});
  if (!token) return std::nullopt;
  const float sure = std::exp(LogSoftmax(logits).of(*token));
  const auto level = static_cast<uint8_t>(sure * DraftKind::kLevels);
  return DrawnDraftToken{
      {*token, {DraftSource::kModel, std::min<uint8_t>(level, DraftKind::kLevels - 1)}},
      sure >= kMinConfidence};
}

}  // namespace kvik
