#pragma once

#include <string_view>

#include "base/result.h"
#include "service/chat_request.h"
#include "service/template_traits.h"
#include "service/tools/tool_format.h"

namespace kvik {

// The properties of a chat template that adapted() depends on.
struct TemplateInfo {
  std::string_view source;
  TemplateTraits traits;
  const ToolFormat* format = nullptr;  // the tool-call format of the template; null: unknown
  // adapted() may add tools to the system prompt if the template does not render them
  bool may_add_tools = true;
};

// Returns the conversation in a form that the template renders completely. Content that the
// template would drop or reject is moved to a place where it is rendered; everything else is
// unchanged. If the template does not render tools, their definitions are added to the system
// prompt in the Hermes format, and tool calls and tool results become text in that format. If the
// template accepts a system message only at the beginning, later system messages are merged into an
// adjacent user message. Errors: kInvalidArgument for an unknown role, or for tools that may not be
// added.
Result<ChatRequest> adapted(ChatRequest request, const TemplateInfo& needs);

// Returns whether the request's tools have to be written into the system prompt.
bool needs_tools_in_system_prompt(const ChatRequest& request, const TemplateInfo& needs);

}  // namespace kvik
