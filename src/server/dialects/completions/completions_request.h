#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// Parses a body of POST /v1/completions. `prompt` is a string, token ids, strings, or arrays of
// ids: one request each. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<CompletionCall> parse_completions_call(const RequestBody& body);

}  // namespace kvik
