#include "service/forms/answer_constraint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "service/answer_format.h"

namespace kvik {
namespace {

constexpr size_t kMaxForcedBytes = 256;
// Shorter text is not worth a look at how the tokenizer would cut it.
constexpr size_t kMinForcedBytes = 2;
constexpr std::string_view kEndOfThought = kThinkTags.end_thought;

bool is_set(std::span<const uint64_t> mask, TokenId token) {
  return token / kMaskBits < mask.size() && (mask[token / kMaskBits] >> token % kMaskBits & 1) != 0;
}

void set_only(TokenId token, std::span<uint64_t> mask) {
  std::ranges::fill(mask, 0);
  if (token / kMaskBits < mask.size()) mask[token / kMaskBits] = uint64_t{1} << token % kMaskBits;
}

}  // namespace

AnswerConstraint::AnswerConstraint(std::shared_ptr<const FormVocabulary> vocabulary,
                                   std::shared_ptr<grammar::Constraint> form, AnswerBegin begin)
    : vocabulary_(std::move(vocabulary)), matcher_(form->start()) {
  states_.push_back({.in_thought = begin == AnswerBegin::kThought});
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
  if (state.in_thought || state.has_failed) return std::nullopt;
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

void AnswerConstraint::fill_mask(std::span<uint64_t> mask) {
  if (now().in_thought) return fill_thought_mask(mask);
  if (const auto token = must_come()) return set_only(*token, mask);
  std::ranges::fill(mask, 0);
  if (now().has_failed) return;
  const size_t n_words = vocabulary_->trie()->n_mask_words();
  if (mask.size() >= n_words) {
    if (!matcher_.mask(mask.first(n_words))) fail();
  } else {  // a model that knows fewer tokens than its tokenizer
    std::vector<uint64_t> all(n_words);
    if (!matcher_.mask(all)) fail();
    std::copy_n(all.begin(), mask.size(), mask.begin());
  }
  if (now().has_failed) std::ranges::fill(mask, 0);
}

bool AnswerConstraint::allows(TokenId token) {
  if (token >= vocabulary_->n_vocab()) return false;
  if (now().in_thought) {
    const std::string piece = vocabulary_->piece(token);
    const auto behind = behind_thought(piece);
    return !behind || is_readable(*behind);
  }
  if (const auto forced = must_come()) return token == *forced;
  if (now().has_failed) return false;
  const auto allowed = matcher_.allows(token);
  if (!allowed) fail();
  return allowed && *allowed;
}

void AnswerConstraint::advance(TokenId token) {
  if (states_.size() > 4 * size_t{kMaxRollBack}) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack));
  }
  const auto forced = must_come();
  State next = now();
  next.has_looked = false;
  states_.push_back(std::move(next));
  if (now().in_thought) return think(token);
  if (forced && ++now().next_forced == now().forced->size()) now().forced = nullptr;
  const auto is_read = matcher_.accept(token);
  if (!is_read) return fail();
  CHECK(*is_read);
  ++now().n_read;
}

void AnswerConstraint::roll_back(uint32_t n) {
  CHECK(n < states_.size());
  const uint32_t n_read = now().n_read;
  states_.resize(states_.size() - n);
  matcher_.roll_back(n_read - now().n_read);
}

Constraint::End AnswerConstraint::end() {
  if (now().in_thought || now().has_failed) return End::kNotYet;
  const auto is_complete = matcher_.is_complete();
  if (!is_complete) fail();
  if (!is_complete || !*is_complete) return End::kNotYet;
  const auto next = matcher_.next_bytes();
  if (!next) fail();
  return next && next->empty() ? End::kMust : End::kMay;
}

void AnswerConstraint::forced(uint32_t n_max, std::vector<TokenId>& tokens) {
  if (!must_come()) return;
  const std::vector<TokenId>& all = *now().forced;
  const size_t n = std::min<size_t>(n_max, all.size() - now().next_forced);
  const auto first = all.begin() + static_cast<ptrdiff_t>(now().next_forced);
  tokens.insert(tokens.end(), first, first + static_cast<ptrdiff_t>(n));
}

std::optional<std::string_view> AnswerConstraint::behind_thought(std::string_view piece) const {
  const std::string& tail = states_.back().tail;
  // A mark that ends in the piece: at most its first bytes stand in the tail.
  for (size_t n_before = std::min(tail.size(), kEndOfThought.size() - 1) + 1; n_before-- > 0;) {
    const bool is_begun = std::string_view(tail).ends_with(kEndOfThought.substr(0, n_before));
    const std::string_view rest = kEndOfThought.substr(n_before);
    if (!is_begun) continue;
    if (n_before > 0) {
      if (piece.starts_with(rest)) return piece.substr(rest.size());
      continue;
    }
    const size_t at = piece.find(rest);
    if (at != std::string_view::npos) return piece.substr(at + rest.size());
  }
  return std::nullopt;
}

// The form may begin with these bytes.
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

void AnswerConstraint::fill_thought_mask(std::span<uint64_t> mask) {
  std::ranges::fill(mask, ~uint64_t{0});
  const uint32_t n_vocab = vocabulary_->n_vocab();
  for (size_t w = 0; w < mask.size(); ++w) {
    const size_t begin = w * kMaskBits;
    if (begin >= n_vocab)
      mask[w] = 0;
    else if (n_vocab - begin < kMaskBits)
      mask[w] = (uint64_t{1} << (n_vocab - begin)) - 1;
  }
  for (const TokenId token : vocabulary_->beyond_thoughts()) {
    if (!is_set(mask, token) || allows(token)) continue;
    mask[token / kMaskBits] &= ~(uint64_t{1} << token % kMaskBits);
  }
}

void AnswerConstraint::think(TokenId token) {
  const std::string piece = vocabulary_->piece(token);
  const auto behind = behind_thought(piece);
  if (!behind) {
    std::string& tail = now().tail;
    tail += piece;
    if (tail.size() >= kEndOfThought.size())
      tail.erase(0, tail.size() - (kEndOfThought.size() - 1));
    return;
  }
  now().in_thought = false;
  now().tail.clear();
  if (behind->empty()) return;
  const auto n_read = matcher_.accept_bytes(*behind);
  if (!n_read || *n_read != behind->size()) return fail();
  ++now().n_read;
}

}  // namespace kvik
