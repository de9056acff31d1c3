#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"
#include "server/dialects/completion_call.h"

namespace kvik {

// A body of OpenAI's /v1/responses.
struct ResponsesCall {
  CompletionCall call;
  boost::json::object echo;  // what the answer repeats of it: instructions, temperature, …
};

//   instructions, input → messages: a string is the user's; items are messages, and thoughts of
//                         earlier answers, which are left out
//   max_output_tokens   → max_tokens
//
// What asks for state or work that there is not (previous_response_id, conversation, background,
// prompt, tools, another text.format than text) is refused; `store` is read, and the answer says
// that nothing was stored. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<ResponsesCall> parse_responses_call(const ServiceApi& service, std::string_view body);

}  // namespace kvik
