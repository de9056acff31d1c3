#pragma once

#include <string_view>

#include "base/result.h"
#include "base/text/text_list.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// Grammars that are not written in a grammar language. Errors: kInvalidArgument, kUnsupported.

// Returns the grammar of the texts that match a regular expression (see pattern/pattern.h) as a
// whole.
Result<Grammar> regex_grammar(std::string_view expression, const Limits& limits);

// Returns the grammar that consists of these texts.
Result<Grammar> choice_grammar(const TextList& choices, const Limits& limits);

}  // namespace kvik::constrain
