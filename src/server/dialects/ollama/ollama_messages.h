#pragma once

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/chat_request.h"

namespace kvik {

// Reads `messages` and `tools` of /api/chat. Errors: kInvalidArgument, kUnsupported (images), with
// the field in `param`.
Result<ChatRequest> read_ollama_chat(const JsonFields& fields);

}  // namespace kvik
