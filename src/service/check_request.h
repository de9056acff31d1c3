#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/watch/snapshot.h"
#include "service/service_api.h"

namespace kvik {

// Returns whether `name` is the model's id or one of its aliases, with or without ":latest".
bool is_name_of(const ModelCard& card, std::string_view name);

// Returns kNotFound unless the name means the served model or one of its adapters.
Result<void> check_model(const std::optional<std::string>& model, const ModelCard& card,
                         const AdapterRegistry* adapters = nullptr);

// Checks that every value of a request is within its bounds. Errors: kInvalidArgument with the
// field in `param`, naming the value and what was expected; kNotFound for an unknown model. The
// prompt is checked when it is tokenized.
Result<void> check_request(const CompletionRequest& request, const ModelCard& card,
                           const AdapterRegistry* adapters = nullptr);

// Returns kInvalidArgument if an id is outside the vocabulary.
Result<void> check_tokens(std::span<const TokenId> ids, uint32_t n_vocab);

// Returns kInvalidArgument if biases of −∞, banned tokens and min_tokens leave no token to sample
// for the first token of an answer. For a prepared request without a constraint.
Result<void> check_tokens_left(const Request& request, uint32_t n_vocab);

}  // namespace kvik
