#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/sessions/session_name.h"
#include "service/service_api.h"

namespace kvik {

// A parsed request body, independent of the dialect.
struct CompletionCall {
  // One per prompt, otherwise equal. Choices are numbered consecutively: those of the first prompt
  // come first.
  std::vector<CompletionRequest> requests;
  bool is_stream = false;
  bool include_usage = false;        // a stream ends with a chunk that contains it
  bool explain_cache = false;        // the answer explains what the cache did
  bool restores_answers = true;      // earlier answers get the tokens that the model generated
  bool names_function_call = false;  // a chat's tool call is "function_call", OpenAI's older form
  bool holds_calls = false;          // a stream has a tool call when its arguments are complete
  SessionName session = {};          // with_prompt() completes it
  size_t kept_bytes = 0;             // bytes of the body that the answer repeats
  size_t stored_bytes = 0;           // bytes stored with the answer
  // Tools that only their vendor can run: they are not shown to the model, and listed in a response
  // header.
  std::vector<std::string> left_out = {};
};

// Readers of fields common to several dialects. They check types and reject values that do not fit;
// ranges are checked by the service. Unknown fields are ignored, but those that would change the
// answer and are not supported are rejected. Errors: kInvalidArgument, kUnsupported, with the field
// in `param`.

// Reads the fields common to all dialects: one request without prompt and without dialect-specific
// fields.
Result<CompletionCall> read_call(const JsonFields& fields);

// Reads stream_options and the constraint of read_answer_form().
Result<void> read_answer_format(const JsonFields& fields, std::string_view body,
                                CompletionCall& call);

// Reads stop, n, best_of, prompt_logprobs and user of OpenAI's completions and chats.
Result<void> read_choices(const JsonFields& fields, CompletionCall& call);

// Reads the maximum number of tokens of an answer; -1: until the context is full, as in llama.cpp.
Result<std::optional<uint64_t>> read_max_tokens(const JsonFields& fields, std::string_view name);

// Reads a stop string or an array of them.
Result<std::vector<std::string>> read_stops(const boost::json::value& value);

// Reads the number of alternatives per token.
Result<std::optional<uint32_t>> read_logprobs(const JsonFields& fields, std::string_view name);

}  // namespace kvik
