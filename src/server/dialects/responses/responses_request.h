#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>
#include <string>

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"
#include "server/dialects/responses/responses_items.h"

namespace kvik {

// A parsed body of OpenAI's /v1/responses.
struct ResponsesCall {
  CompletionCall call;
  boost::json::object echo;  // fields that the answer repeats: instructions, temperature, …
  boost::json::array items;  // items of the input, without the earlier conversation
  std::string previous;      // previous_response_id
  bool is_stored = true;
  bool is_background = false;  // answered at once, and computed without the connection
  bool includes_encrypted_reasoning = false;        // reasoning.encrypted_content is included
  std::set<std::string, std::less<>> custom_tools;  // tools whose calls are texts
};

//   instructions, input    → messages: a string is a user message; items as in ResponsesItems
//   previous_response_id   → the items of that conversation come first
//   tools, tool_choice     → as in read_responses_tools() and read_tool_choice()
//   max_output_tokens      → max_tokens; max_tool_calls, parallel_tool_calls → max_calls
//   reasoning.effort       → reasoning effort for the template
//   truncation: "auto"     → removes the oldest messages after the system's until it fits
//
enum class ResponsesUse : uint8_t { kAnswer, kCount };

// kCount: for the number of the prompt's tokens only, so that how the answer is returned does not
// matter. Unsupported features (conversation, prompt, a stream with background) are rejected.
// Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<ResponsesCall> parse_responses_call(const ServiceApi& service, const RequestBody& body,
                                           const StoredResponsesForSalt& kept_for = {},
                                           ResponsesUse use = ResponsesUse::kAnswer);

}  // namespace kvik
