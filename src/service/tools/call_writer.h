#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "service/message.h"
#include "service/tools/tool_format.h"
#include "template/jinja/text.h"

namespace kvik {

// Returns the value as JSON on one line, formatted like Python's json.dumps().
std::string to_json(const Json& data);

// Returns calls as a model of this format writes them, for templates that do not render calls. The
// marks are template text, so special tokens in them are recognized; names and arguments are given
// text.
jinja::Text written_calls(const ToolFormat& format, const std::vector<ToolCall>& calls);

// Returns the system prompt text that lists the tools and explains how to call them in the Hermes
// format.
std::string tools_system_prompt(const std::vector<Json>& tools);

}  // namespace kvik
