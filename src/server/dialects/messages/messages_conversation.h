#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/chat_fields.h"
#include "service/chat_request.h"

namespace kvik {

// Converts `system` and `messages` of Anthropic's /v1/messages: a tool_result becomes a message
// with role "tool", tool_use a tool call, thinking reasoning; adjacent messages of one role are
// merged, and a system message keeps its position. Lines that a client changes with every request
// and no model needs are dropped (without_billing_header()). Reasoning is dropped if it has another
// signature than reasoning_signature() for `model`. Errors: kInvalidArgument, kUnsupported, with
// the field in `param`.
Result<std::vector<Message>> read_anthropic_messages(const JsonFields& fields,
                                                     std::string_view model, CacheMarks& marks);

// Removes lines such as "x-anthropic-billing-header: …; cch=…;", which would change the prefix with
// every request.
std::string without_billing_header(std::string_view text);

}  // namespace kvik
