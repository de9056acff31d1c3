#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Reads Anthropic's "cache_control": {"type": "ephemeral", "ttl": "5m"} of a request or a part of
// one: for that time, the pages of everything before it are evicted only after unmarked pages.
// std::nullopt if there is none. Errors: kInvalidArgument.
Result<std::optional<std::chrono::seconds>> read_cache_control(const JsonFields& fields);

// Reads how the cache treats a request: cache_salt, priority, cache_control for the whole prompt,
// and our own object "kvik" {"pin": {"ttl": "5m"}}. Only the type of prompt_cache_key is checked:
// prefixes are found without hints. Errors: kInvalidArgument, with the field in `param`.
Result<void> read_cache_fields(const JsonFields& fields, CompletionRequest& request);

// Reads the field of that name, which identifies the user, as the tenant for fair scheduling.
Result<void> read_user(const JsonFields& fields, std::string_view name, CompletionRequest& request);

// Reads "kvik": {"restore_answers": false}: earlier answers are tokenized as the client sent them,
// and this one is not remembered.
Result<bool> restores_answers(const JsonFields& fields);

// Reads "kvik": {"explain_cache": true}: the answer then explains what the cache did.
Result<bool> wants_cache_explained(const JsonFields& fields);

// Reads "kvik": {"attest": true}: the answer then holds what `kvik verify` needs.
Result<bool> wants_attestation(const JsonFields& fields);

}  // namespace kvik
