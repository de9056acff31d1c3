#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "service/chat.h"

namespace kvik {

// messages, tools, add_generation_prompt, continue_final_message and chat_template_kwargs of a
// request. Parts of text are put together; arguments of tool calls that are JSON in a string become
// what it says, which is what templates expect. cache_control of parts and tools makes marks.
// Errors: kInvalidArgument with the field in `param`.
Result<ChatRequest> read_chat_request(const boost::json::object& object);

}  // namespace kvik
