#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "service/chat_request.h"
#include "template/jinja/text.h"

namespace kvik {

// The capabilities of a chat template, found by rendering probe conversations: a template drops
// what it does not support without an error.
struct TemplateTraits {
  bool writes_tools = false;
  bool writes_calls = false;
  bool writes_results = false;        // messages with the role "tool"
  bool takes_system = false;          // renders a system message at the beginning
  bool takes_system_between = false;  // renders system messages at later positions
  bool knows_developer = false;
  bool reads_thinking = false;  // reads earlier reasoning as `message.thinking`
};

using RenderTemplate = std::function<Result<jinja::Text>(const ChatRequest&)>;
TemplateTraits traits_of(std::string_view source, const RenderTemplate& render);

// Returns whether the template source contains this role as a quoted string.
bool names_role(std::string_view source, std::string_view role);

}  // namespace kvik
