#pragma once

#include <optional>

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Readers of fields of Ollama's API. Errors: kInvalidArgument, kUnsupported, with the field in
// `param`.

// Reads `options` into a request: sampling parameters, seed, stop and num_predict. The defaults of
// temperature, top_k and top_p are Ollama's. Options that Kvik does not have are ignored.
Result<void> read_options(const JsonFields& fields, CompletionRequest& request);

// Reads `keep_alive`, seconds or a duration such as "5m", and returns whether it is zero. The
// served model stays loaded whatever it is.
Result<bool> is_keep_alive_zero(const JsonFields& fields);

// Reads `think`: true, false or a reasoning effort.
Result<ReasoningOptions> read_think(const JsonFields& fields);

// Reads `logprobs` and `top_logprobs`: alternatives per token, or std::nullopt.
Result<std::optional<uint32_t>> read_ollama_logprobs(const JsonFields& fields);

// Returns kUnsupported if `images` is not empty.
Result<void> check_no_images(const JsonFields& fields);

// Reads the fields common to generating and chatting: a call of one request without prompt.
// `stream` is true by default. body: the text of the request.
Result<CompletionCall> read_ollama_call(const JsonFields& fields, std::string_view body);

}  // namespace kvik
