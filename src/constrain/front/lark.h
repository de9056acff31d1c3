#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {

// A grammar as Lark writes it and LLGuidance takes it: rules, terminals, texts ("x"i too), regular
// expressions, ranges, groups, repetitions, aliases, %ignore, %import of `common`, %json {schema}.
// It begins with the rule `start`. There is no longest match: a text is in the grammar where some
// way to cut it into terminals is. What %ignore names may follow any terminal.
//
// The options are those of schemas; what a schema leaves out is not told.
//
// Errors: kInvalidArgument, kUnsupported (tokens, templates, rules' attributes, options), with the
// line; those of Builder::finish().
Result<Grammar> parse_lark(std::string_view text, const SchemaOptions& options);

}  // namespace kvik::constrain
