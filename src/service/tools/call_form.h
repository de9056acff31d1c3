#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"
#include "service/chat_request.h"
#include "service/forms/answer_form.h"
#include "service/tools/tool_format.h"

namespace kvik {

// What is wanted of the calls in an answer.
struct CallWish {
  const std::vector<Json>& tools;                    // as templates are given them
  const std::set<std::string, std::less<>>& strict;  // names of those whose schemas must be kept
  std::optional<ForcedCalls> forced = {};  // absent: text may come in their place, or before
  bool may_be_several = true;
  std::optional<AnswerForm> other = {};  // JSON that may come in the place of calls
  JsonStyle style = {};                  // of arguments
  const CallSyntax* syntax = nullptr;    // the template's; null: none
  std::span<const ToolFormat* const> formats =
      {};  // in which calls are read: no text may begin them
};

// Returns the grammar of an answer with such calls. If calls are forced and the template's syntax
// cannot express a tool's schema, Hermes is used, since its marks are plain text in every
// vocabulary. Errors: kInvalidArgument: a tool that is not there, or none at all.
struct CallForm {
  std::optional<AnswerForm> form;  // absent: calls are not forced, and cannot be written so
  bool is_hermes = false;          // in the place of the template's own
};
Result<CallForm> form_of_calls(const CallWish& wish);

}  // namespace kvik
