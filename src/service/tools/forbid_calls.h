#pragma once

#include "service/answer_syntax.h"
#include "text/tokenizer.h"

namespace kvik {

// Removes the tool calls from the syntax of an answer: text that looks like a call is then text.
// Marks that begin calls and are tokens of their own become forbidden tokens.
void forbid_calls(const Tokenizer& tokenizer, AnswerSyntax& syntax);

}  // namespace kvik
