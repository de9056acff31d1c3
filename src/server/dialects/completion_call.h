#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// What a body asks for, in whatever dialect.
struct CompletionCall {
  // One for each prompt, alike in all else. Choices are numbered through: those of the first
  // prompt come first.
  std::vector<CompletionRequest> requests;
  bool is_stream = false;
  bool include_usage = false;        // a stream ends with a chunk that holds it
  bool explain_cache = false;        // the answer says what the cache did
  bool names_function_call = false;  // a chat's call comes as "function_call", OpenAI's older form
  size_t kept_bytes = 0;             // of the body, which the answer repeats
  size_t stored_bytes = 0;           // of what is stored with the answer
  // Tools that only their vendor can run: the model is not told of them, the client is.
  std::vector<std::string> left_out = {};
};

// Readers of what several dialects have. Types are checked, and what does not fit them; ranges are
// the service's business. Unknown fields are ignored, but those that would change the answer and
// cannot be obeyed are refused. Errors: kInvalidArgument, kUnsupported, with the field in `param`.

// What all have: one request without prompt, and without what only some have or call otherwise.
Result<CompletionCall> read_call(const JsonFields& fields);

// stream_options, and the form that read_answer_form() reads: how the answer is to come.
Result<void> read_answer_format(const JsonFields& fields, std::string_view body,
                                CompletionCall& call);

// stop, n, best_of, prompt_logprobs and user, of OpenAI's completions and chats.
Result<void> read_choices(const JsonFields& fields, CompletionCall& call);

// The most tokens of an answer: -1 is what the context holds, as with llama.cpp.
Result<std::optional<uint64_t>> read_max_tokens(const JsonFields& fields, std::string_view name);

// A stop string, or an array of them.
Result<std::vector<std::string>> read_stops(const boost::json::value& value);

// How many tokens besides each one's own.
Result<std::optional<uint32_t>> read_logprobs(const JsonFields& fields, std::string_view name);

}  // namespace kvik
