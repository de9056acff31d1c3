#pragma once

#include "service/message.h"
#include "service/tools/tool_format.h"
#include "template/jinja/value.h"

namespace kvik {

// Converts JSON to a template value. All strings are marked as given (user input), never as
// template text, so special tokens in them are not recognized.
jinja::Value template_value(const Json& data);

// The message format that a template expects.
struct MessageFormat {
  // not null: the template does not render calls, so they are written into the content in this
  // format
  const ToolFormat* writes_calls_as = nullptr;
  bool reads_thinking = false;  // reasoning is also passed as `thinking`
};

// Returns a dict of role, content, reasoning_content, tool_calls (in OpenAI's form), tool_call_id,
// name and the unknown fields, as far as the message has them.
jinja::Value template_value(const Message& message, const MessageFormat& needs = {});

template <class T, class... Needs>
jinja::Value template_list(const std::vector<T>& items, const Needs&... needs) {
  std::vector<jinja::Value> values;
  values.reserve(items.size());
  for (const T& item : items) values.push_back(template_value(item, needs...));
  return jinja::make_list(std::move(values));
}

}  // namespace kvik
