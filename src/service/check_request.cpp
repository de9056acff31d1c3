#include "service/check_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "service/adapters/adapter_registry.h"
#include "service/model_name.h"
#include "service/request_bounds.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

using Bounds = RequestBounds;

std::unexpected<Error> out_of_range(std::string_view param, double value, std::string_view range) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}, expected {}", param, value, range), std::string(param));
}

// Returns false for NaN, which fails both comparisons.
bool within(float value, float low, float high) { return value >= low && value <= high; }

Result<void> check_logit_bias(const SamplingParams& p, uint32_t n_vocab) {
  if (p.logit_bias.size() > Bounds::kBiases) {
    return out_of_range("logit_bias", static_cast<double>(p.logit_bias.size()),
                        fmt::format("at most {} entries", Bounds::kBiases));
  }
  for (const auto& [id, bias] : p.logit_bias) {
    if (id >= n_vocab) return out_of_range("logit_bias", id, fmt::format("ids below {}", n_vocab));
    const bool is_never = bias == -std::numeric_limits<float>::infinity();
    if (!is_never && !within(bias, -Bounds::kBias, Bounds::kBias)) {
      return out_of_range("logit_bias", bias, "numbers from -100 to 100");
    }
  }
  return {};
}

Result<void> check_banned(const SamplingParams& p, uint32_t n_vocab) {
  for (const std::vector<TokenId>& banned : p.banned) {
    for (const TokenId id : banned) {
      if (id >= n_vocab)
        return out_of_range("banned_tokens", id, fmt::format("ids below {}", n_vocab));
    }
  }
  return {};
}

Result<void> check_texts(const SamplingTexts& texts) {
  const auto check = [](std::string_view param, const std::vector<std::string>& all, size_t n_max,
                        size_t n_bytes) -> Result<void> {
    if (all.size() > n_max) {
      return out_of_range(param, static_cast<double>(all.size()),
                          fmt::format("at most {} texts", n_max));
    }
    for (const std::string& text : all) {
      if (text.empty() || text.size() > n_bytes) {
        return out_of_range(param, static_cast<double>(text.size()),
                            fmt::format("texts of 1 to {} bytes", n_bytes));
      }
    }
    return {};
  };
  TRY(check("bad_words", texts.banned, 2 * Bounds::kBanned, Bounds::kBannedBytes));
  if (!texts.dry_breakers) return {};
  return check("dry_sequence_breakers", *texts.dry_breakers, Bounds::kDryBreakers,
               Bounds::kDryBreakerBytes);
}

Result<void> check_stops(const CompletionRequest& r, uint32_t n_vocab) {
  if (r.output.stop.size() > Bounds::kStops) {
    return out_of_range("stop", static_cast<double>(r.output.stop.size()),
                        fmt::format("at most {} strings", Bounds::kStops));
  }
  for (const std::string& stop : r.output.stop) {
    if (!stop.empty() && stop.size() <= Bounds::kStopBytes) continue;
    return out_of_range("stop", static_cast<double>(stop.size()),
                        fmt::format("strings of 1 to {} bytes", Bounds::kStopBytes));
  }
  if (r.engine.stop_tokens.size() > Bounds::kStopTokens) {
    return out_of_range("stop_token_ids", static_cast<double>(r.engine.stop_tokens.size()),
                        fmt::format("at most {} ids", Bounds::kStopTokens));
  }
  for (const TokenId id : r.engine.stop_tokens) {
    if (id >= n_vocab) {
      return out_of_range("stop_token_ids", id, fmt::format("ids below {}", n_vocab));
    }
  }
  return {};
}

}  // namespace

Result<void> check_tokens_left(const Request& request, uint32_t n_vocab) {
  std::vector<TokenId> forbidden;
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    if (bias == -std::numeric_limits<float>::infinity()) forbidden.push_back(id);
  }
  for (const std::vector<TokenId>& banned : request.sampling.banned) {
    if (banned.size() == 1) forbidden.push_back(banned.front());
  }
  if (forbidden.empty()) return {};
  if (request.min_tokens > 0) {
    forbidden.insert(forbidden.end(), request.stop_tokens.begin(), request.stop_tokens.end());
  }
  if (forbidden.size() < n_vocab) return {};
  std::ranges::sort(forbidden);
  const auto repeated = std::ranges::unique(forbidden);
  if (forbidden.size() - repeated.size() < n_vocab) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("logit_bias, banned tokens and min_tokens forbid all {} tokens of the "
                          "vocabulary, expected that one is left",
                          n_vocab),
              "logit_bias");
}

bool is_name_of(const ModelCard& card, std::string_view name) {
  return is_same_model(name, card.id.text()) ||
         std::ranges::any_of(card.aliases, [&](const std::string& alias) {
           return is_same_model(name, alias) || alias == "*";
         });
}

Result<void> check_tokens(std::span<const TokenId> ids, uint32_t n_vocab) {
  for (const TokenId id : ids) {
    if (id < n_vocab) continue;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("token {} is not in the vocabulary, expected ids below {}", id, n_vocab),
        "tokens");
  }
  return {};
}

Result<void> check_model(const std::optional<std::string>& model, const ModelCard& card,
                         const AdapterRegistry* adapters) {
  if (!model || is_name_of(card, *model) || adapter_name(adapters, card, *model)) return {};
  return fail(ErrorCode::kNotFound,
              fmt::format("the model '{}' does not exist; '{}' is served (kvik serve --alias '*' "
                          "answers to any name)",
                          *model, card.id),
              "model");
}

Result<void> check_request(const CompletionRequest& r, const ModelCard& card,
                           const AdapterRegistry* adapters) {
  TRY(check_model(r.model, card, adapters));
  TRY(check_sampling(r.engine.sampling));
  TRY(check_logit_bias(r.engine.sampling, card.n_vocab));
  TRY(check_banned(r.engine.sampling, card.n_vocab));
  TRY(check_texts(r.sampling_texts));
  TRY(check_stops(r, card.n_vocab));
  if (r.n < 1 || r.n > Bounds::kChoices) {
    return out_of_range("n", r.n, fmt::format("1 to {}", Bounds::kChoices));
  }
  if (r.engine.n_logprobs.value_or(0) > Bounds::kLogprobs) {
    return out_of_range("logprobs", *r.engine.n_logprobs,
                        fmt::format("0 to {}", Bounds::kLogprobs));
  }
  if (r.output.n_prompt_logprobs.value_or(0) > Bounds::kLogprobs) {
    return out_of_range("prompt_logprobs", *r.output.n_prompt_logprobs,
                        fmt::format("0 to {}", Bounds::kLogprobs));
  }
  if (r.max_tokens == 0 && !r.output.echo) return out_of_range("max_tokens", 0, "at least 1");
  if (r.max_tokens && r.min_tokens > *r.max_tokens) {
    return out_of_range("min_tokens", static_cast<double>(r.min_tokens),
                        fmt::format("at most max_tokens, {}", *r.max_tokens));
  }
  return {};
}

}  // namespace kvik
