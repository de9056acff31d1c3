#include "constrain/front/plain_forms.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/utf8.h"
#include "constrain/code_points.h"
#include "constrain/pattern/pattern.h"

namespace kvik::constrain {
namespace {

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kValid) return false;
    at += step.n_bytes;
  }
  return true;
}

}  // namespace

Result<Grammar> regex_grammar(std::string_view expression, const Limits& limits) {
  Builder builder(limits);
  if (!is_utf8(expression))
    return fail(ErrorCode::kInvalidArgument, "the regular expression is not valid UTF-8");
  TRY_ASSIGN(const Regular text, parse_pattern(builder.regulars(), expression, {}));
  return builder.finish(builder.text(text));
}

Result<Grammar> choice_grammar(const TextList& choices, const Limits& limits) {
  Builder builder(limits);
  std::vector<std::u32string> texts;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!is_utf8(choices[i]))
      return fail(ErrorCode::kInvalidArgument, fmt::format("choice {} is not valid UTF-8", i + 1));
    texts.push_back(to_characters(choices[i]));
  }
  return builder.finish(builder.text(builder.regulars().one_of(std::move(texts))));
}

}  // namespace kvik::constrain
