#pragma once

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// Reads messages, tools, add_generation_prompt, continue_final_message and chat_template_kwargs of
// a request. Arguments of tool calls that are JSON in a string are parsed, as templates expect.
// cache_control of parts and tools sets marks. Errors: kInvalidArgument, kUnsupported, with the
// field in `param`.
Result<ChatRequest> read_chat_request(const JsonFields& fields);

// Parses a body of POST /v1/chat/completions: a conversation, and the fields of completions.
// Without max_tokens an answer may fill the context. Errors as above, and those of the template.
Result<CompletionCall> parse_chat_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
