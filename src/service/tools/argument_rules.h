#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "service/structured_output/grammar_rules.h"
#include "service/tools/call_syntax.h"

namespace kvik {

// Returns a node for the arguments of one call that match the tool's schema (`parameters`; null: it
// takes none), and adds the rules to which the node refers. Parameters that are written one by one
// follow the order of the schema. Returns nullopt if the syntax cannot express the schema.
std::optional<GrammarNode> argument_rules(const CallSyntax& syntax, const Json* parameters,
                                          GrammarRules& rules);

// Returns a node for unconstrained arguments.
GrammarNode free_arguments(const CallSyntax& syntax);

// Returns a node for the arguments as one JSON object.
GrammarNode json_arguments(const Json* parameters);

// Returns a regular expression that matches exactly this text.
std::string literal_pattern(std::string_view text);

// Returns a regular expression for the beginning of a call without markup: {"name": "NAME"
std::string bare_opening_pattern(std::string_view name);

// Returns a node for any text that contains none of the marks and no match of the patterns.
// `first`: a pattern for the first character that is not blank.
GrammarNode text_excluding(const std::vector<std::string_view>& marks, std::string_view first = "",
                           const std::vector<std::string>& patterns = {});

}  // namespace kvik
