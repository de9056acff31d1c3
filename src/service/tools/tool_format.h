#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "service/tools/call_steps.h"
#include "service/tools/call_syntax.h"

namespace kvik {

// A format of tool calls in the answers of a family of models.
struct ToolFormat {
  std::string_view name;                      // for --tool-format
  std::array<std::string_view, 2> telltales;  // a template with all of these writes it
  std::vector<CallSyntax> syntaxes;           // one or two, with the same opening mark
  std::string_view end_token = {};            // what a model says after its last call
  bool writes_history = false;                // calls that a template leaves out of earlier turns
  bool has_nine_letter_ids = false;
  bool has_one_call = false;  // a message of its template holds no second call
  bool has_channels = false;  // harmony: an answer is several messages, each for a channel

  CallSteps reading = {};  // made from `syntaxes`

  bool has_numbered_names() const { return syntaxes.front().has_numbered_names; }
};

// The first whose telltales are there is a template's own.
std::span<const ToolFormat> tool_formats();

// Null where there is none of that name, or where the template writes none that is known.
const ToolFormat* find_tool_format(std::string_view name);
const ToolFormat* find_format_of_template(std::string_view chat_template);

// What a template without tools is given in its system prompt.
const ToolFormat& hermes_format();

// Returns the syntax that a template writes.
const CallSyntax& find_syntax(const ToolFormat& format, std::string_view chat_template);

// All the marks of a format: what of them is a special token must reach the reader.
std::vector<std::string_view> marks_of(const ToolFormat& format);

}  // namespace kvik
