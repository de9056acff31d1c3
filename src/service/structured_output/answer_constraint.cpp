#include "service/structured_output/answer_constraint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

constexpr size_t kMaxForcedBytes = 256;
// Shorter forced text is not worth tokenizing.
constexpr size_t kMinForcedBytes = 2;

}  // namespace

AnswerConstraint::AnswerConstraint(std::shared_ptr<const GrammarVocabulary> vocabulary,
                                   std::shared_ptr<const constrain::CompiledGrammar> form,
                                   AnswerPreamble preamble)
    : vocabulary_(std::move(vocabulary)),
      preamble_(std::make_shared<const AnswerPreamble>(std::move(preamble))),
      form_(std::move(form)),
      matcher_(form_->start()) {
  states_.emplace_back();
  enter(Place::kOpening);
}

// Enters a place, or the next one if this place is empty.
void AnswerConstraint::enter(Place place) {
  State& state = now();
  const auto must_come = [&](const std::vector<TokenId>& tokens) {
    state.next_forced = 0;
    state.forced = tokens.empty() ? nullptr : std::make_shared<const std::vector<TokenId>>(tokens);
    return !tokens.empty();
  };
  state.place = place;
  if (place == Place::kOpening && must_come(preamble_->opening)) return;
  if (place == Place::kOpening && !preamble_->offered.empty()) {
    state.place = Place::kOffer;
    return;
  }
  if (place == Place::kOpening) state.place = Place::kReasoning;
  if (state.place == Place::kReasoning && !preamble_->end_reasoning.empty()) return;
  if (place == Place::kClosing && must_come(preamble_->closing)) return;
  state.place = Place::kForm;
}

std::unique_ptr<Constraint> AnswerConstraint::fork() const {
  return std::make_unique<AnswerConstraint>(*this);
}

void AnswerConstraint::fail() {
  now().has_failed = true;
  now().forced = nullptr;
}

std::optional<TokenId> AnswerConstraint::must_come() {
  State& state = now();
  if (state.place == Place::kReasoning || state.has_failed) return std::nullopt;
  if (!state.forced && !state.has_looked) {
    state.has_looked = true;
    const auto text = matcher_.forced_bytes(kMaxForcedBytes);
    if (!text) {
      fail();
    } else if (text->size() >= kMinForcedBytes) {
      auto tokens = vocabulary_->tokens_of(*text);
      state.next_forced = 0;
      if (!tokens.empty())
        state.forced = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
    }
  }
  if (!state.forced) return std::nullopt;
  return (*state.forced)[state.next_forced];
}

void AnswerConstraint::fill_mask(TokenBitmask& mask) {
  if (now().place == Place::kReasoning) return fill_reasoning_mask(mask);
  fill_grammar_mask(mask);
  if (now().place != Place::kOffer || now().has_failed) return;
  const TokenId opening = preamble_->offered.front();
  if (opening < mask.n_tokens()) mask.allow(opening);
}

void AnswerConstraint::fill_grammar_mask(TokenBitmask& mask) {
  const auto token = must_come();
  mask.allow_none();
  if (token && *token < mask.n_tokens()) mask.allow(*token);
  if (token || now().has_failed) return;
  const uint32_t n_vocab = vocabulary_->n_vocab();
  if (mask.n_tokens() >= n_vocab) {
    if (!matcher_.mask(mask)) fail();
  } else {  // the model has fewer tokens than its tokenizer
    TokenBitmask all(n_vocab);
    if (!matcher_.mask(all)) fail();
    mask.allow_those_of(all);
  }
  if (now().has_failed) mask.allow_none();
}

bool AnswerConstraint::allows(TokenId token) {
  if (token >= vocabulary_->n_vocab()) return false;
  if (now().place == Place::kReasoning) {
    if (std::ranges::count(preamble_->forbidden_in_reasoning, token) > 0) return false;
    const std::string piece = vocabulary_->piece(token, *preamble_);
    const auto after = now().search.after_mark(preamble_->end_reasoning, piece);
    return !after || (preamble_->closing.empty() ? is_readable(*after) : after->empty());
  }
  return is_offered(token) || grammar_allows(token);
}

bool AnswerConstraint::is_offered(TokenId token) const {
  return states_.back().place == Place::kOffer && token == preamble_->offered.front();
}

bool AnswerConstraint::grammar_allows(TokenId token) {
  if (const auto forced = must_come()) return token == *forced;
  if (now().has_failed) return false;
  const auto allowed = matcher_.allows(token);
  if (!allowed) fail();
  return allowed && *allowed;
}

void AnswerConstraint::drop_old_states() {
  if (states_.size() <= 2 * size_t{kMaxRollBack}) return;
  states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack) - 1);
}

void AnswerConstraint::advance(TokenId token) {
  drop_old_states();
  auto forced = must_come();
  const bool is_opening = is_offered(token) && !grammar_allows(token);
  State next = now();
  next.has_looked = false;
  if (next.place == Place::kOffer) next.place = Place::kForm;
  states_.push_back(std::move(next));
  if (is_opening) {
    now().place = Place::kOpening;
    now().forced = std::make_shared<const std::vector<TokenId>>(preamble_->offered);
    now().next_forced = 0;
    forced = token;
  }
  if (now().place == Place::kReasoning) return advance_reasoning(token);
  if (forced && ++now().next_forced == now().forced->size()) {
    now().forced = nullptr;
    if (now().place == Place::kOpening) return enter(Place::kReasoning);
    if (now().place == Place::kClosing) return enter(Place::kForm);
  }
  if (now().place != Place::kForm) return;
  const auto is_read = matcher_.accept(token);
  if (!is_read || !*is_read) return fail();
  ++now().n_read;
}

// Always tries the small effort first. The outcome of a step must depend only on the tokens, not on
// which thread calls it or when.
template <class Step>
Constraint::Outcome AnswerConstraint::attempt(Effort effort, const Step& step) {
  using MatcherEffort = constrain::GrammarMatcher::Effort;
  if (!was_small_tried_) {
    const size_t n_states = states_.size();
    const State before = now();
    matcher_.set_effort(MatcherEffort::kSmall);
    step();
    if (!now().has_failed) return Outcome::kDone;
    if (matcher_.has_failed()) return Outcome::kExhausted;
    matcher_.roll_back(now().n_read - before.n_read);
    states_.resize(n_states);
    now() = before;
    was_small_tried_ = true;
  }
  if (effort == Effort::kSmall) return Outcome::kUnfinished;
  was_small_tried_ = false;
  matcher_.set_effort(MatcherEffort::kFull);
  step();
  return matcher_.has_failed() ? Outcome::kExhausted : Outcome::kDone;
}

Constraint::Outcome AnswerConstraint::try_advance(Effort effort, std::optional<TokenId> token,
                                                  Next& next, uint32_t n_max) {
  drop_old_states();
  return attempt(effort, [&] { Constraint::try_advance(effort, token, next, n_max); });
}

Constraint::Outcome AnswerConstraint::try_mask(Effort effort, TokenBitmask& mask) {
  return attempt(effort, [&] { fill_mask(mask); });
}

void AnswerConstraint::roll_back(uint32_t n) {
  CHECK(n < states_.size());
  const uint32_t n_read = now().n_read;
  states_.resize(states_.size() - n);
  matcher_.roll_back(n_read - now().n_read);
}

Constraint::End AnswerConstraint::end() {
  const bool is_in_form = now().place == Place::kForm || now().place == Place::kOffer;
  if (!is_in_form || now().has_failed) return End::kNotYet;
  const auto is_complete = matcher_.is_complete();
  if (!is_complete) fail();
  if (!is_complete || !*is_complete) return End::kNotYet;
  const auto next = matcher_.next_bytes();
  if (!next) fail();
  return next && next->empty() && now().place == Place::kForm ? End::kMust : End::kMay;
}

void AnswerConstraint::forced(uint32_t n_max, std::vector<TokenId>& tokens) {
  if (now().place == Place::kOffer || !must_come()) return;
  const std::vector<TokenId>& all = *now().forced;
  const size_t n = std::min<size_t>(n_max, all.size() - now().next_forced);
  const auto first = all.begin() + static_cast<ptrdiff_t>(now().next_forced);
  tokens.insert(tokens.end(), first, first + static_cast<ptrdiff_t>(n));
}

// Returns whether the form may begin with these bytes.
bool AnswerConstraint::is_readable(std::string_view text) {
  if (text.empty()) return true;
  const auto n_read = matcher_.accept_bytes(text);
  if (!n_read) {
    fail();
    return false;
  }
  matcher_.roll_back(1);
  return *n_read == text.size();
}

void AnswerConstraint::fill_reasoning_mask(TokenBitmask& mask) {
  mask.allow_first(vocabulary_->n_vocab());
  for (const TokenId token : preamble_->forbidden_in_reasoning) {
    if (mask.allows(token)) mask.forbid(token);
  }
  for (const TokenId token : vocabulary_->tokens_past_reasoning_end(preamble_->end_reasoning)) {
    if (mask.allows(token) && !allows(token)) mask.forbid(token);
  }
}

void AnswerConstraint::advance_reasoning(TokenId token) {
  const std::string piece = vocabulary_->piece(token, *preamble_);
  const auto after = now().search.after_mark(preamble_->end_reasoning, piece);
  if (!after) return now().search.append(preamble_->end_reasoning, piece);
  now().search = {};
  enter(Place::kClosing);
  if (after->empty()) return;
  const auto n_read = matcher_.accept_bytes(*after);
  if (!n_read) return fail();
  ++now().n_read;
  if (*n_read != after->size()) fail();
}

}  // namespace kvik
