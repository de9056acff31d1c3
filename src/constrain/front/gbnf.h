#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// A grammar in llama.cpp's dialect: rules of `name ::= …`, texts, classes of characters, groups,
// repetitions and comments. It begins with the rule `root`. Errors: kInvalidArgument,
// kUnsupported, with the line; those of Builder::finish().
Result<Grammar> parse_gbnf(std::string_view text, const Limits& limits);

}  // namespace kvik::constrain
