#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "service/reasoning_marks.h"
#include "service/tools/tool_format.h"
#include "service/tools/tool_schemas.h"

namespace kvik {

// Harmony: the beginning of a message, of its body, and of another one of the assistant; its end;
// the headers of reasoning and of the final message, which holds the answer itself.
inline constexpr std::string_view kMessageStart = "<|start|>";
inline constexpr std::string_view kMessageBody = "<|message|>";
inline constexpr std::string_view kReasoningHeader = "<|channel|>analysis<|message|>";
inline constexpr std::string_view kFinalHeader = "<|channel|>final<|message|>";
inline constexpr std::string_view kMessageEnd = "<|end|>";
inline constexpr std::string_view kNextMessage = "<|start|>assistant";

// The syntax of the answer to one request. All pointers except `tools` refer to static tables.
struct AnswerSyntax {
  const ReasoningMarks* reasoning_marks = &kThinkTags;
  // The template supports reasoning, and the model decides whether to begin with it.
  bool may_reason = false;
  // The tool-call formats to recognize; if empty, tool calls are not parsed.
  std::vector<const ToolFormat*> calls = {};
  const CallSyntax* call_syntax = nullptr;        // syntax of forced calls; null: none
  std::shared_ptr<const ToolSchemas> tools = {};  // schemas of the tools; null: none
  bool has_channels = false;                      // the answer is in harmony format
  // The answer may end with tool calls that lack the markup of a format: see BareCallReader.
  bool reads_bare_calls = false;
  // special tokens whose text is visible because they are marks, ascending
  std::vector<TokenId> shown_tokens = {};
  std::vector<TokenId> end_tokens = {};        // end tokens in addition to the vocabulary's
  std::vector<TokenId> forbidden_tokens = {};  // they begin calls, which the request forbids
};

}  // namespace kvik
