#include "service/structured_output/reasoning_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/blanks.h"
#include "base/check.h"

namespace kvik {

ReasoningBudget::ReasoningBudget(const Tokenizer& tokenizer, Rules rules,
                                 std::shared_ptr<const Constraint> inner)
    : tokenizer_(tokenizer),
      rules_(std::make_shared<const Rules>(std::move(rules))),
      inner_(inner ? inner->fork() : nullptr) {
  CHECK(!rules_->ending.empty());
  states_.emplace_back();
  if (rules_->begin == AnswerBegin::kReasoning) enter_reasoning();
}

ReasoningBudget::ReasoningBudget(const ReasoningBudget& other)
    : tokenizer_(other.tokenizer_),
      rules_(other.rules_),
      inner_(other.inner_ ? other.inner_->fork() : nullptr),
      states_(other.states_) {}

std::unique_ptr<Constraint> ReasoningBudget::fork() const {
  return std::make_unique<ReasoningBudget>(*this);
}

void ReasoningBudget::enter_reasoning() {
  now().place = rules_->n_max == 0 ? Place::kEnding : Place::kReasoning;
  now().start.clear();
}

void ReasoningBudget::fill_mask(TokenBitmask& mask) {
  if (is_ending()) {
    const TokenId token = next_of_ending();
    mask.allow_none();
    if (token < mask.n_tokens()) mask.allow(token);  // a model may have fewer than its tokenizer
  } else if (inner_) {
    inner_->fill_mask(mask);
  } else {
    mask.allow_first(mask.n_tokens());
  }
}

bool ReasoningBudget::allows(TokenId token) {
  if (is_ending()) return token == next_of_ending();
  return !inner_ || inner_->allows(token);
}

void ReasoningBudget::advance(TokenId token) {
  if (inner_) inner_->advance(token);
  append(token);
}

void ReasoningBudget::append(TokenId token) {
  if (states_.size() > 2 * size_t{kMaxRollBack}) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack) - 1);
  }
  states_.push_back(now());
  State& state = now();
  switch (state.place) {
    case Place::kBefore:
      return read_before(token);
    case Place::kReasoning:
      return read_reasoning(token);
    case Place::kEnding:
      if (++state.n_forced == rules_->ending.size()) state.place = Place::kAfter;
      return;
    case Place::kAfter:
      return;
  }
}

// Collects the answer's beginning until it shows whether it begins with reasoning: blanks, then the
// begin mark.
void ReasoningBudget::read_before(TokenId token) {
  State& state = now();
  state.start += visible_piece(tokenizer_, token, rules_->shown);
  const std::string_view text =
      std::string_view(state.start)
          .substr(std::min(state.start.find_first_not_of(kBlanks), state.start.size()));
  if (text.starts_with(rules_->begin_mark)) return enter_reasoning();
  if (!rules_->begin_mark.starts_with(text)) state = {.place = Place::kAfter};
}

void ReasoningBudget::read_reasoning(TokenId token) {
  State& state = now();
  const std::string piece = visible_piece(tokenizer_, token, rules_->shown);
  if (state.search.after_mark(rules_->end_mark, piece)) {
    state = {.place = Place::kAfter};
    return;
  }
  state.search.append(rules_->end_mark, piece);
  if (++state.n_reasoning >= rules_->n_max) state.place = Place::kEnding;
}

void ReasoningBudget::roll_back(uint32_t n) {
  CHECK(n < states_.size());
  states_.resize(states_.size() - n);
  if (inner_) inner_->roll_back(n);
}

Constraint::End ReasoningBudget::end_after(End inner) const {
  return is_ending() ? End::kNotYet : inner;
}

Constraint::End ReasoningBudget::end() { return end_after(inner_ ? inner_->end() : End::kMay); }

void ReasoningBudget::append_ending(uint32_t n_max, std::vector<TokenId>& tokens) const {
  const auto rest = std::span(rules_->ending).subspan(states_.back().n_forced);
  const auto some = rest.first(std::min<size_t>(n_max, rest.size()));
  tokens.insert(tokens.end(), some.begin(), some.end());
}

void ReasoningBudget::forced(uint32_t n_max, std::vector<TokenId>& tokens) {
  if (is_ending()) return append_ending(n_max, tokens);
  if (inner_) inner_->forced(n_max, tokens);
}

Constraint::Outcome ReasoningBudget::try_advance(Effort effort, std::optional<TokenId> token,
                                                 Next& next, uint32_t n_max) {
  next.end = End::kMay;
  next.forced.clear();
  if (inner_) {
    const Outcome outcome = inner_->try_advance(effort, token, next, n_max);
    if (outcome != Outcome::kDone) return outcome;
  }
  if (token) append(*token);
  next.end = end_after(next.end);
  next.is_free = !inner_ && now().place == Place::kAfter;
  if (!is_ending()) return Outcome::kDone;
  next.forced.clear();
  append_ending(n_max, next.forced);
  return Outcome::kDone;
}

Constraint::Outcome ReasoningBudget::try_mask(Effort effort, TokenBitmask& mask) {
  if (inner_ && !is_ending()) return inner_->try_mask(effort, mask);
  fill_mask(mask);
  return Outcome::kDone;
}

ReasoningBudget::Rules reasoning_rules(const Tokenizer& tokenizer, const OutputOptions& output,
                                       const ReasoningEnding& ending) {
  const AnswerSyntax& syntax = output.answer_syntax;
  ReasoningBudget::Rules rules{.begin_mark = syntax.reasoning_marks->begin_reasoning,
                               .end_mark = syntax.reasoning_marks->end_reasoning,
                               .begin = *output.answer_begin,
                               .n_max = *output.reasoning_budget,
                               .shown = syntax.shown_tokens};
  if (syntax.has_channels) {
    rules.begin_mark = kReasoningHeader;
    rules.end_mark = kMessageEnd;
  }
  // The message must not end the reasoning itself.
  std::string text(ending.message.substr(0, ending.message.find(rules.end_mark)));
  const size_t n_plain = text.size();
  text += rules.end_mark;
  if (syntax.has_channels && !ending.is_constrained) {
    text += kNextMessage;
    if (syntax.calls.empty()) text += kFinalHeader;
  }
  rules.ending = mark_tokens(tokenizer, text, n_plain);
  return rules;
}

}  // namespace kvik
