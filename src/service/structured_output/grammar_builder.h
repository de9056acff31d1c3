#pragma once

#include "base/result.h"
#include "constrain/json_schema.h"
#include "service/structured_output/grammar_rules.h"

namespace kvik {

// Builds a grammar from these rules. Errors: kInvalidArgument, also for text that is not UTF-8;
// those of constrain::add_json_schema() and constrain::Builder::finish().
Result<constrain::Grammar> build_grammar(const GrammarRules& rules,
                                         const constrain::SchemaOptions& options);

}  // namespace kvik
