#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"
#include "service/chat_request.h"
#include "service/structured_output/structured_output.h"
#include "service/tools/tool_format.h"

namespace kvik {

// The requirements for the calls of an answer.
struct ToolCallRequirements {
  const std::vector<Json>& tools;  // as passed to templates
  // names of the tools whose schemas are enforced
  const std::set<std::string, std::less<>>& strict;
  // absent: calls are optional, and text may precede them
  std::optional<ForcedCalls> forced = {};
  bool may_be_several = true;
  std::optional<StructuredOutput> other = {};  // JSON that is allowed instead of calls
  JsonStyle style = {};                        // style of arguments
  const CallSyntax* syntax = nullptr;          // syntax of the template; null: none
  std::span<const ToolFormat* const> formats =
      {};  // formats that the answer's reader recognizes; text may not contain their opening marks
};

// Returns the grammar of an answer that meets these requirements. If calls are forced and the
// template's syntax cannot express a tool's schema, the Hermes format is used, because its marks
// are plain text in every vocabulary. Errors: kInvalidArgument for an undeclared tool, or if there
// are no tools.
struct ToolCallGrammar {
  // absent: calls are not forced, and the syntax cannot express them
  std::optional<StructuredOutput> form;
  bool is_hermes = false;  // Hermes replaces the template's own syntax
};
Result<ToolCallGrammar> tool_call_grammar(const ToolCallRequirements& requested);

}  // namespace kvik
