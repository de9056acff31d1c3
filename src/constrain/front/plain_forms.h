#pragma once

#include <string_view>

#include "base/result.h"
#include "base/text/text_list.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// Forms that need no grammar of their own to be written. Errors: kInvalidArgument, kUnsupported.

// The texts that match an expression (pattern.h) from their beginning to their end.
Result<Grammar> regex_grammar(std::string_view expression, const Limits& limits);

// One of these texts.
Result<Grammar> choice_grammar(const TextList& choices, const Limits& limits);

}  // namespace kvik::constrain
