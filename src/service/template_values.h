#pragma once

#include "service/message.h"
#include "service/tools/tool_format.h"
#include "template/jinja/value.h"

namespace kvik {

// What chat templates are given of a conversation. Every word is somebody's, none the template's.
jinja::Value template_value(const Json& data);

// How a template wants the messages of a model.
struct MessageNeeds {
  const ToolFormat* writes_calls_as = nullptr;  // it does not: calls are put into the content
  bool reads_thinking = false;                  // thoughts have this name too
};

// A dict of role, content, reasoning_content, what Kvik has no type for, tool_calls (OpenAI's),
// tool_call_id and name, as far as the message has them.
jinja::Value template_value(const Message& message, const MessageNeeds& needs = {});

template <class T, class... Needs>
jinja::Value template_list(const std::vector<T>& items, const Needs&... needs) {
  std::vector<jinja::Value> values;
  values.reserve(items.size());
  for (const T& item : items) values.push_back(template_value(item, needs...));
  return jinja::make_list(std::move(values));
}

}  // namespace kvik
