#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "service/answer_format.h"
#include "service/tools/tool_format.h"
#include "service/tools/tool_schemas.h"

namespace kvik {

// What harmony's last message, the answer itself, begins with.
inline constexpr std::string_view kFinalHeader = "<|channel|>final<|message|>";

// How the answer to a request is written. What it points to is a table's and lives for ever.
struct AnswerSyntax {
  const AnswerFormat* thoughts = &kThinkTags;
  // The template knows thoughts and leaves it to the model to open one.
  bool may_think = false;
  // In which calls of tools may come; where there are none, no call is looked for.
  std::vector<const ToolFormat*> calls = {};
  const CallSyntax* call_syntax = nullptr;        // of forced calls; null: none
  std::shared_ptr<const ToolSchemas> tools = {};  // null: none
  bool has_channels = false;                      // harmony
  // At its end an answer may call without the markup of a format: BareCallReader.
  bool reads_bare_calls = false;
  std::vector<TokenId> shown_tokens = {};  // special ones that are marks, ascending
  std::vector<TokenId> end_tokens = {};    // that end such an answer besides the vocabulary's
};

}  // namespace kvik
