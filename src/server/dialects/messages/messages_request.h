#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"

namespace kvik {

// Parses a body of Anthropic's /v1/messages:
//
//   system, messages      → messages, as read_anthropic_messages() reads them
//   a last message of the assistant: the answer continues it
//   tools, tool_choice    → functions, as templates expect them; tools that only their vendor
//                           can run are left out, and named in the call
//   thinking, output_config.effort → reasoning effort for the template
//   stop_sequences, metadata.user_id → OpenAI's stop and user
//
// The other fields are those of chats, including cache_control; beta fields that do not change the
// answer (context_management, container, …) are ignored like unknown ones. Errors:
// kInvalidArgument, kUnsupported, with the field in `param`; kContextLength in Anthropic's wording.
Result<CompletionCall> parse_messages_call(const ServiceApi& service, const RequestBody& body);

// Parses a body to count its tokens, which may exceed the context.
Result<CompletionCall> parse_count_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
