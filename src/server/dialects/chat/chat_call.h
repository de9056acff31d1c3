#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"
#include "server/dialects/completion_json.h"

namespace kvik {

// A conversation in OpenAI's words (messages, tools, and all fields that completions have too) as
// the completion of the prompt that the model's template makes of it. The other dialects of chats
// say the same in these words first. Without max_tokens an answer may take what the context holds.
// Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<CompletionCall> make_chat_call(const ServiceApi& service, const boost::json::object& object);

// A body of POST /v1/chat/completions. Errors as make_chat_call()'s.
Result<CompletionCall> parse_chat_call(const ServiceApi& service, std::string_view body);

// A body of POST /v1/messages, Anthropic's dialect of the same.
Result<CompletionCall> parse_messages_call(const ServiceApi& service, std::string_view body);

}  // namespace kvik
