#pragma once

#include <string_view>

#include "base/result.h"
#include "service/chat_request.h"
#include "service/template_traits.h"
#include "service/tools/tool_format.h"

namespace kvik {

// What of a template decides how it is given a conversation.
struct TemplateNeeds {
  std::string_view source;
  TemplateTraits traits;
  const ToolFormat* format = nullptr;  // in which the template writes calls; null: none known
  bool may_add_tools = true;           // to the system prompt, where the template leaves them out
};

// The conversation as the template can say all of it: what it would leave out or refuse is put
// where it can stand, and only that. Tools that it does not write go to the system prompt in Hermes
// form, calls and results with them; a system message that it takes at the beginning alone goes to
// the user's message beside it. Errors: kInvalidArgument: a role that nobody knows; tools that may
// not be added.
Result<ChatRequest> adapted(ChatRequest request, const TemplateNeeds& needs);

// Whether the tools of this request have to be put into the system prompt.
bool needs_tools_in_words(const ChatRequest& request, const TemplateNeeds& needs);

}  // namespace kvik
