#include "text/detokenizer.h"

#include "base/utf8.h"

namespace kvik {
namespace {

// Moves complete characters from `pending` to the returned text; an incomplete character remains.
std::string take_decided(std::string& pending) {
  std::string text;
  size_t at = 0;
  while (at < pending.size()) {
    const Utf8Step step = next_utf8(pending, at);
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    if (step.kind == Utf8Step::Kind::kValid) {
      text.append(pending, at, step.n_bytes);
    } else {
      text.append(kReplacementCharacter);
    }
    at += step.n_bytes;
  }
  pending.erase(0, at);
  return text;
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Position position, Tokenizer::Special special)
    : tokenizer_(tokenizer),
      special_(special),
      strip_blank_(position == Position::kStart && tokenizer.strips_leading_space()) {}

std::string Detokenizer::push(TokenId id) {
  std::string piece = tokenizer_.piece(id, special_);
  if (piece.empty()) return piece;  // a hidden token neither begins the text nor ends a character
  if (strip_blank_ && piece.front() == ' ') piece.erase(0, 1);
  strip_blank_ = false;
  pending_ += piece;
  return take_decided(pending_);
}

std::string Detokenizer::finish() {
  strip_blank_ = false;
  if (pending_.empty()) return {};
  pending_.clear();  // these are at most three bytes of one character: a single U+FFFD
  return std::string(kReplacementCharacter);
}

}  // namespace kvik
