#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "base/variant.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// Parses a body of POST /v1/completions. `prompt` is a string, token ids, strings, or arrays of
// ids: one request each. With `suffix`, prompts are strings, and the answer is the text between
// them and the suffix. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<CompletionCall> parse_completions_call(const ServiceApi& service, const RequestBody& body);

// Reads `prompt`: at least one.
using CompletionPrompt = Variant<std::string, std::vector<TokenId>>;
Result<std::vector<CompletionPrompt>> read_prompts(const JsonFields& fields);

}  // namespace kvik
