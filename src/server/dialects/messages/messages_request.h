#pragma once

#include <string_view>

#include "base/result.h"
#include "server/dialects/completion_call.h"

namespace kvik {

// A body of Anthropic's /v1/messages:
//
//   system, messages      → messages: tool_result a message of the role "tool", tool_use a call,
//                           thinking a thought; neighbours of one role become one message
//   a last message of the assistant: the answer goes on from it
//   tools, tool_choice    → functions, as templates know them; "any" and "tool" force one and are
//                           refused
//   stop_sequences, metadata.user_id → what OpenAI calls stop and user
//
// The rest is as with chats, cache_control among it. Errors: kInvalidArgument, kUnsupported, with
// the field in `param`.
Result<CompletionCall> parse_messages_call(const ServiceApi& service, std::string_view body);

}  // namespace kvik
