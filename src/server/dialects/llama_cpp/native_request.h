#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// Parse bodies of POST /completion and POST /infill, llama.cpp's own routes, with its names and
// defaults. Options of llama.cpp that Kvik does not have are ignored. Errors: kInvalidArgument,
// kUnsupported, with the field in `param`.

// `prompt` is a string or token ids.
Result<CompletionCall> parse_native_call(const RequestBody& body);
// The answer is the text between `input_prefix` and `input_suffix`, beginning with `prompt`;
// `input_extra` has other files.
Result<CompletionCall> parse_infill_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
