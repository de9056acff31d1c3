#pragma once

#include <vector>

#include "base/result.h"
#include "service/chat_request.h"
#include "service/forms/answer_form.h"

namespace kvik {

// The form of an answer that is one call of one of the tools named, or of any: in Hermes form,
// whose marks are plain text in every vocabulary, with arguments by the tool's schema. Errors:
// kInvalidArgument: a tool that is not there, or none at all.
Result<AnswerForm> form_of_call(const std::vector<Data>& tools, const ForcedCalls& forced);

}  // namespace kvik
