#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"

namespace kvik {

// A body of Anthropic's /v1/messages in OpenAI's words, as make_chat_call() reads them:
//
//   system, messages      → messages: blocks of text become parts, tool_use becomes tool_calls,
//                           tool_result a message of the role tool, thinking reasoning_content;
//                           neighbours of one role become one message
//   a last message of the assistant → continue_final_message: the answer goes on from it
//   tools, tool_choice    → the same in functions; "any" and "tool" force one and are refused
//   stop_sequences        → stop
//   metadata.user_id      → user
//
// What both dialects have stays, cache_control among it. Errors: kInvalidArgument, kUnsupported,
// with the field in `param`.
Result<boost::json::object> to_chat_body(boost::json::object body);

}  // namespace kvik
