#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "service/forms/grammar_rules.h"
#include "service/tools/call_syntax.h"

namespace kvik {

// Returns a node for the arguments of one call that match the tool's schema (`parameters`; null: it
// takes none), and adds the rules to which it refers. Parameters that are written one by one come
// in the order of the schema. nullopt if the syntax cannot express the schema.
std::optional<GrammarNode> argument_rules(const CallSyntax& syntax, const Json* parameters,
                                          GrammarRules& rules);

// Any arguments.
GrammarNode free_arguments(const CallSyntax& syntax);

// The arguments as one JSON object.
GrammarNode json_arguments(const Json* parameters);

// A regular expression for the beginning of a call without markup: {"name": "NAME"
std::string bare_opening_pattern(std::string_view name);

// Any text without one of the marks and without a match of one of the patterns. `first`: a pattern
// of its first character that is no blank.
GrammarNode text_without(const std::vector<std::string_view>& marks, std::string_view first = "",
                         const std::vector<std::string>& patterns = {});

}  // namespace kvik
