#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/structured_output/grammar_rules.h"

namespace kvik {

// Free text of a structural tag: any text up to the first of several marks, such as triggers and
// the end of a tag. It does not begin with a mark of reasoning, unless that is one of its marks, so
// that a model which may reason reasons before the constrained answer, and not within it.
struct FreeText {
  std::vector<std::string> marks = {};     // distinct, none of them empty
  std::vector<std::string> excluded = {};  // texts that must not occur in it

  // Returns a node for free text followed by `mark`, one of the marks: the mark ends where the
  // first of all marks in the text ends.
  GrammarNode up_to(std::string_view mark) const;
  // Returns a node for free text that contains no mark.
  GrammarNode without_marks() const;

 private:
  // Returns a lookahead that excludes the marks of reasoning.
  std::string no_reasoning() const;
};

// A mark that free text can never reach, and the mark within it that comes first.
struct HiddenMark {
  std::string_view hidden;
  std::string_view within;
};
std::optional<HiddenMark> find_hidden_mark(const std::vector<std::string>& marks);

}  // namespace kvik
