#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Anthropic's "cache_control": {"type": "ephemeral", "ttl": "5m"} of a request or a part of one:
// what stands before it is given up after all that is not marked, for so long. nullopt where there
// is none. Errors: kInvalidArgument.
Result<std::optional<std::chrono::seconds>> read_cache_control(const JsonFields& fields);

// How the cache is to treat a request: cache_salt, priority, cache_control for the whole prompt,
// and of our own object "kvik" {"pin": {"ttl": "5m"}}. prompt_cache_key is read for its type alone:
// prefixes are found without hints. Errors: kInvalidArgument, with the field in `param`.
Result<void> read_cache_fields(const JsonFields& fields, CompletionRequest& request);

// Who asks, by a field that dialects call differently: whom fairness counts it for.
Result<void> read_user(const JsonFields& fields, std::string_view name, CompletionRequest& request);

// "kvik": {"explain_cache": true}: the answer tells what the cache did for it.
Result<bool> wants_cache_explained(const JsonFields& fields);

}  // namespace kvik
