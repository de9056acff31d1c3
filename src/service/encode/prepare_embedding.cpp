#include "service/encode/prepare_embedding.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvik {
namespace {

// Cuts a text before its last n_end tokens. If an end-of-sequence token follows it, that token
// stays, too.
void cut(std::vector<TokenId>& ids, uint32_t n_tokens, uint32_t n_end, const Tokenizer& tokenizer) {
  if (ids.size() <= n_tokens) return;
  const bool is_closed = tokenizer.eos() && ids.back() == *tokenizer.eos();
  n_end = std::min(std::max<uint32_t>(n_end, is_closed ? 1 : 0), n_tokens);
  std::copy(ids.end() - n_end, ids.end(), ids.begin() + (n_tokens - n_end));
  ids.resize(n_tokens);
}

// Returns what the engine has to compute. Only encoders have a classifier in the engine.
Request::Wants wants_of(Pooling pooling, const ModelCard& card) {
  using enum Request::Wants;
  if (!card.generates) return pooling == Pooling::kRank ? kScores : kHiddenStates;
  return pooling == Pooling::kRank || pooling == Pooling::kLast ? kLastState : kHiddenStates;
}

// Checks that the first text of a pair leaves room for the second.
Result<void> check_first_text(const EmbeddingRequest& request, const ModelCard& card) {
  if (!request.engine.second_segment) return {};
  const uint32_t n_first = *request.engine.second_segment + request.n_end_tokens;
  const size_t n_max = request.truncate_to ? request.engine.prompt.size() : card.n_ctx_max;
  if (n_first <= n_max) return {};
  return fail(ErrorCode::kContextLength,
              fmt::format("{} has {} tokens with its prompt, expected fewer than the {} of a pair",
                          request.first_field.empty() ? "the first text" : request.first_field,
                          n_first, n_max),
              std::string(request.first_field.empty() ? "prompt" : request.first_field));
}

}  // namespace

Result<void> prepare_embedding(EmbeddingRequest& request, const Tokenizer& tokenizer,
                               const ModelCard& card) {
  Request& to_run = request.engine;
  if (!request.pooling) request.pooling = card.pooling.value_or(Pooling::kMean);
  const bool ranks = *request.pooling == Pooling::kRank;
  if (ranks && card.n_labels == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "pooling \"rank\" needs a model with a classifier, which this one is not",
                "pooling");
  }
  const uint32_t n_dims = ranks ? card.n_labels : card.model_dim;
  if (request.n_dims && (*request.n_dims < 1 || *request.n_dims > n_dims)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("dimensions is {}, expected 1 to {}", *request.n_dims, n_dims),
                "dimensions");
  }
  if (ranks) request.norm.kind = EmbeddingRequest::Norm::Kind::kNone;
  if (request.truncate_to) {
    const uint32_t n_max =
        *request.truncate_to == 0 ? card.n_ctx_max : std::min(*request.truncate_to, card.n_ctx_max);
    cut(to_run.prompt, n_max, request.n_end_tokens, tokenizer);
  }
  TRY(check_first_text(request, card));
  to_run.max_tokens = 0;
  to_run.wants = wants_of(*request.pooling, card);
  return {};
}

}  // namespace kvik
