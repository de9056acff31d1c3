#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "service/chat_request.h"
#include "template/jinja/text.h"

namespace kvik {

// What a chat template does with a conversation, learnt by having it write some: a template that
// leaves something out does so in silence.
struct TemplateTraits {
  bool writes_tools = false;
  bool writes_calls = false;
  bool writes_results = false;        // messages of the role "tool"
  bool takes_system = false;          // at the beginning
  bool takes_system_between = false;  // and where it stands later
  bool knows_developer = false;
  bool reads_thinking = false;  // thoughts of earlier turns as `thinking`
};

using RenderTemplate = std::function<Result<jinja::Text>(const ChatRequest&)>;
TemplateTraits traits_of(std::string_view source, const RenderTemplate& render);

// Whether the source names this role: in quotes.
bool names_role(std::string_view source, std::string_view role);

}  // namespace kvik
