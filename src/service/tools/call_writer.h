#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "service/message.h"
#include "service/tools/tool_format.h"
#include "template/jinja/text.h"

namespace kvik {

// The value as JSON, in one line, as Python's json.dumps() writes it.
std::string to_json(const Json& data);

// Calls as a model of that format writes them, for templates that leave them out. The marks are the
// template's words, so that special tokens among them count; the rest is somebody's.
jinja::Text written_calls(const ToolFormat& format, const std::vector<ToolCall>& calls);

// What tells a model of the tools it has and how to call them in Hermes form.
std::string tools_in_words(const std::vector<Json>& tools);

}  // namespace kvik
