#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"

namespace kvik {

// A body of OpenAI's /v1/responses.
struct ResponsesBody {
  boost::json::object chat;  // the same in the words of chats, as make_chat_call() reads them
  boost::json::object echo;  // what the answer repeats of it: instructions, temperature, …
};

//   instructions, input → messages: a string is the user's; items are messages, and thoughts of
//                         earlier answers, which are left out
//   max_output_tokens   → max_tokens
//
// What asks for state or work that there is not (previous_response_id, conversation, background,
// prompt, tools, another text.format than text) is refused; `store` is read, and the answer says
// that nothing was stored. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<ResponsesBody> read_responses_body(boost::json::object body);

}  // namespace kvik
