#pragma once

#include "base/result.h"
#include "server/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Who asks, and how the cache is to treat it: cache_salt, user, priority, and of our own object
// "kvik" {"pin": {"ttl": "5m"}}. prompt_cache_key is read for its type alone: prefixes are found
// without hints. Errors: kInvalidArgument, with the field in `param`.
Result<void> read_cache_fields(const JsonFields& fields, CompletionRequest& request);

// "kvik": {"explain_cache": true}: the answer tells what the cache did for it.
Result<bool> wants_cache_explained(const JsonFields& fields);

}  // namespace kvik
