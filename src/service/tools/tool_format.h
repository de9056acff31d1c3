#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "service/tools/call_steps.h"
#include "service/tools/call_syntax.h"

namespace kvik {

// The tool-call format of a family of models.
struct ToolFormat {
  std::string_view name;  // value of --tool-format
  // a template that contains all of these uses the format
  std::array<std::string_view, 2> markers;
  std::vector<CallSyntax> syntaxes;  // one or two, with the same opening mark
  std::string_view end_token = {};   // token that ends an answer after its last call
  // calls of earlier turns are written if the template omits them
  bool writes_history = false;
  bool has_nine_letter_ids = false;
  bool has_one_call = false;  // the template supports only one call per message
  bool has_channels = false;  // harmony: an answer is several messages, each on a channel

  CallSteps reading = {};  // derived from `syntaxes`

  bool has_numbered_names() const { return syntaxes.front().has_numbered_names; }
};

// Returns all formats. A template uses the first one whose markers it contains.
std::span<const ToolFormat> tool_formats();

// Return null if no format has this name, or if the template contains no known format.
const ToolFormat* find_tool_format(std::string_view name);
const ToolFormat* find_format_of_template(std::string_view chat_template);

// Returns the format that is described in the system prompt if the template does not support tools.
const ToolFormat& hermes_format();

// Returns the syntax that a template uses.
const CallSyntax& find_syntax(const ToolFormat& format, std::string_view chat_template);

// Returns all marks of a format. Special tokens among them must be visible to the reader.
std::vector<std::string_view> marks_of(const ToolFormat& format);

}  // namespace kvik
