#pragma once

#include <string_view>

#include "base/result.h"
#include "service/structured_output/grammar_rules.h"

namespace kvik {

// Returns the grammar of a structural tag, as vLLM, SGLang and XGrammar define them: an answer of
// free text in which tags follow their triggers. `json` is the object with `structures` and
// `triggers`, or with `format`; `param` is its field in the request. Schemas and regular
// expressions are not compiled here. Errors, with the path of the wrong value in `param`:
// kInvalidArgument; kUnsupported for a format that a grammar cannot express.
Result<GrammarRules> structural_tag_rules(std::string_view json, std::string_view param);

}  // namespace kvik
