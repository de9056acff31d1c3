#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {

// Parses a Lark grammar as LLGuidance accepts it: rules, terminals, texts ("x"i too), regular
// expressions, ranges, groups, repetitions, aliases, %ignore, %import of `common`, %json {schema}.
// It starts with the rule `start`. There is no longest match: a text matches if some way to split
// it into terminals does. Text of %ignore may follow any terminal.
//
// The options apply to schemas; relaxed parts of schemas are not reported.
//
// Errors: kInvalidArgument, kUnsupported (tokens, templates, attributes of rules, options), with
// the line; those of Builder::finish().
Result<Grammar> parse_lark(std::string_view text, const SchemaOptions& options);

}  // namespace kvik::constrain
