#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/watch/snapshot.h"
#include "service/service_api.h"

namespace kvik {

// Whether clients may call the model so.
bool is_name_of(const ModelCard& card, std::string_view name);

// kNotFound for another model than the one that is served, or one of its adapters.
Result<void> check_model(const std::optional<std::string>& model, const ModelCard& card,
                         const AdapterBook* adapters = nullptr);

// Whether every value of a request lies where it may (THREATS 14-17): kInvalidArgument naming the
// field in `param`, the value and what was expected; kNotFound for another model. The prompt is
// checked when it is tokenized.
Result<void> check_request(const CompletionRequest& request, const ModelCard& card,
                           const AdapterBook* adapters = nullptr);

}  // namespace kvik
