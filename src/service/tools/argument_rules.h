#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/data.h"
#include "service/tools/call_syntax.h"

namespace kvik {

// The arguments of one call as a part of a Lark grammar: what stands in the call's rule, and
// further rules, each on a line.
struct ArgumentRules {
  std::string body;
  std::string rules = {};
};

// Returns the rules for arguments that match the tool's schema (`parameters`; null: it takes none).
// Parameters that are written one by one come in the order of the schema. Names of rules begin with
// `prefix`. nullopt if the syntax cannot express the schema.
std::optional<ArgumentRules> argument_rules(const CallSyntax& syntax, const Data* parameters,
                                            std::string_view prefix);

// Any arguments at all.
ArgumentRules free_arguments(const CallSyntax& syntax);

// The same as one JSON object.
std::string json_arguments(const Data* parameters);

// A regular expression for the beginning of a call without markup: {"name": "NAME"
std::string bare_opening_pattern(std::string_view name);

// "/…/s": any text in which none of the marks stands, and nothing that matches one of the patterns.
// `first`: what its first character that is no blank must match.
std::string text_without(const std::vector<std::string_view>& marks, std::string_view first = "",
                         const std::vector<std::string>& patterns = {});

// A literal of a Lark grammar.
std::string literal(std::string_view text);

}  // namespace kvik
