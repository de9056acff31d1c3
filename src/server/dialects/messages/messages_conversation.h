#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/chat_fields.h"
#include "service/chat_request.h"

namespace kvik {

// system and messages of a body of Anthropic's /v1/messages, as messages of ours: a tool_result is
// a message of the role "tool", tool_use a call, thinking a thought; neighbours of one role become
// one message, a system message stands where it stood. Lines that a client changes with every
// request and no model needs are put aside; so are thoughts that another server signed. `model`:
// whose thoughts are ours. Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<std::vector<Message>> read_anthropic_messages(const JsonFields& fields,
                                                     std::string_view model, CacheMarks& marks);

// Without the lines of a header such as "x-anthropic-billing-header: …; cch=…;", which would be
// another prefix each time.
std::string without_billing_header(std::string_view text);

}  // namespace kvik
