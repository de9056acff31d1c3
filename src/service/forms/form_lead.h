#pragma once

#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "service/answer_parts.h"

namespace kvik {

// What an answer says before its form begins:
//
//   opening ─▶ a thought: any text up to end_thought ─▶ closing ─▶ the form
//   offered ──▲
//
// What is offered may come in the place of the form's beginning, where that would not read it.
//
// Immutable.
struct FormLead {
  std::vector<TokenId> opening = {};
  std::vector<TokenId> offered = {};  // in the place of `opening`
  std::string_view end_thought = {};  // of a table; empty: no thought, and no closing
  std::vector<TokenId> closing = {};
  std::vector<TokenId> shown = {};           // special tokens that are marks, ascending
  std::vector<TokenId> not_in_thought = {};  // marks that would end it otherwise
};

}  // namespace kvik
