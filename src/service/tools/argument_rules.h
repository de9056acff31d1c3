#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/data.h"
#include "service/tools/call_spelling.h"

namespace kvik {

// The arguments of one call as a part of a Lark grammar: what stands in the call's rule, and
// further rules, each on a line.
struct ArgumentRules {
  std::string body;
  std::string rules = {};
};

// Those that keep to the tool's schema (`parameters`; null: it takes none). In spellings that write
// each parameter for itself they come in the order of the schema. Rules are named behind `prefix`.
// nullopt where the spelling has no way to keep to the schema.
std::optional<ArgumentRules> argument_rules(const CallSpelling& spelling, const Data* parameters,
                                            std::string_view prefix);

// Any arguments at all.
ArgumentRules free_arguments(const CallSpelling& spelling);

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
