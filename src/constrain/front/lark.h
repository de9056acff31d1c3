#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {

// Parses a Lark grammar in the dialect of LLGuidance: rules, terminals, texts (also "x"i), regular
// expressions, ranges, groups, repetitions, aliases, %ignore, %import of `common`, %json {schema}.
// The start rule is `start`. Terminals are not matched greedily: a text matches if it can be split
// into terminals in some way. Text of %ignore may follow any terminal.
//
// `options` applies to the schemas. Keywords that are ignored in relaxed mode are not reported.
//
// Errors: kInvalidArgument or kUnsupported (tokens, templates, attributes of rules, options) with
// the line number; those of Builder::finish().
Result<Grammar> parse_lark(std::string_view text, const SchemaOptions& options);
// Adds a Lark grammar to another grammar, and returns its start. Returns the errors of parsing.
Result<Node> add_lark(Builder& builder, std::string_view text, const SchemaOptions& options);

}  // namespace kvik::constrain
