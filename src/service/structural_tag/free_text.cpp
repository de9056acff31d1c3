#include "service/structural_tag/free_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "service/reasoning_beginnings.h"
#include "service/tools/argument_rules.h"

namespace kvik {
namespace {

std::string any_of(const std::vector<std::string>& texts) {
  std::string pattern;
  for (const std::string& text : texts) {
    if (!pattern.empty()) pattern += '|';
    pattern += literal_pattern(text);
  }
  return fmt::format("(?:{})", pattern);
}

}  // namespace

std::string FreeText::no_reasoning() const {
  std::vector<std::string> beginnings;
  for (const std::string_view beginning : reasoning_beginnings()) {
    const bool is_mark = std::ranges::any_of(marks, [&](const std::string_view mark) {
      return mark.starts_with(beginning) || beginning.starts_with(mark);
    });
    if (!is_mark) beginnings.emplace_back(beginning);
  }
  return beginnings.empty() ? "" : fmt::format(R"((?!\s*{}))", any_of(beginnings));
}

// The first lookahead excludes text in which a mark ends earlier. The second one excludes texts
// that end before the mark begins.
GrammarNode FreeText::up_to(std::string_view mark) const {
  const std::string end = literal_pattern(mark);
  std::string pattern = no_reasoning() + fmt::format("(?!.*{}.)", any_of(marks));
  if (!excluded.empty()) pattern += fmt::format("(?!.*{}.*{}$)", any_of(excluded), end);
  return GrammarNode::of_pattern(fmt::format("{}.*{}", pattern, end));
}

GrammarNode FreeText::without_marks() const {
  std::vector<std::string> all = marks;
  all.insert(all.end(), excluded.begin(), excluded.end());
  const std::string none = all.empty() ? "" : fmt::format("(?!.*{})", any_of(all));
  return GrammarNode::of_pattern(fmt::format("{}{}.*", no_reasoning(), none));
}

std::optional<HiddenMark> find_hidden_mark(const std::vector<std::string>& marks) {
  for (const std::string& mark : marks) {
    const std::string_view beginning = std::string_view(mark).substr(0, mark.size() - 1);
    for (const std::string& other : marks) {
      if (beginning.contains(other)) return HiddenMark{mark, other};
    }
  }
  return std::nullopt;
}

}  // namespace kvik
