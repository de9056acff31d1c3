#pragma once

#include <string_view>

#include "base/result.h"
#include "base/text/text_list.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// Constraints that need no grammar text. Errors: kInvalidArgument, kUnsupported.

// Texts that match a regular expression (pattern.h) as a whole.
Result<Grammar> regex_grammar(std::string_view expression, const Limits& limits);

// One of these texts.
Result<Grammar> choice_grammar(const TextList& choices, const Limits& limits);

}  // namespace kvik::constrain
