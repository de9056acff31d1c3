#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// A body of Anthropic's /v1/messages:
//
//   system, messages      → messages, as read_anthropic_messages() says
//   a last message of the assistant: the answer goes on from it
//   tools, tool_choice    → functions, as templates know them; those that only their vendor knows
//                           are left out, and named in the call
//   thinking, output_config.effort → how much the template is told to have the model think
//   stop_sequences, metadata.user_id → what OpenAI calls stop and user
//
// The rest is as with chats, cache_control among it; fields of betas that change no answer
// (context_management, container, …) are ignored as unknown ones are. Errors: kInvalidArgument,
// kUnsupported, with the field in `param`; kContextLength in Anthropic's words.
Result<CompletionCall> parse_messages_call(const ServiceApi& service, const RequestBody& body);

// The same for counting: however long it is.
Result<CompletionCall> parse_count_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
