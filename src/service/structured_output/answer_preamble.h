#pragma once

#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "service/answer_parts.h"

namespace kvik {

// The part of an answer before its form:
//
//   opening ─▶ reasoning: any text up to end_reasoning ─▶ closing ─▶ the form
//   offered ──▲
//
// The model may begin with the `offered` tokens instead of the form, if the form cannot begin with
// them. Immutable.
struct AnswerPreamble {
  std::vector<TokenId> opening = {};
  std::vector<TokenId> offered = {};  // optional alternative to `opening`
  // points into a static table; empty: no reasoning and no closing
  std::string_view end_reasoning = {};
  std::vector<TokenId> closing = {};
  std::vector<TokenId> shown = {};  // special tokens that are marks, ascending
  // marks that are forbidden in the reasoning because they would end it
  std::vector<TokenId> forbidden_in_reasoning = {};
};

}  // namespace kvik
