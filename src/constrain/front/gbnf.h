#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// Parses a GBNF grammar (llama.cpp): rules `name ::= …`, texts, character classes, groups,
// repetitions and comments. The start rule is `root`. Errors: kInvalidArgument or kUnsupported with
// the line number; those of Builder::finish().
Result<Grammar> parse_gbnf(std::string_view text, const Limits& limits);
// Adds a GBNF grammar to another grammar, and returns its start. Returns the errors of parsing.
Result<Node> add_gbnf(Builder& builder, std::string_view text);

}  // namespace kvik::constrain
