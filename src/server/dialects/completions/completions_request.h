#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// A body of POST /v1/completions. `prompt` is a string, token ids, strings, or arrays of ids: a
// request for each. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<CompletionCall> parse_completions_call(const RequestBody& body);

}  // namespace kvik
