#include "service/answer_parts.h"

#include <algorithm>
#include <utility>

namespace kvik {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// How much of the end of `text` could become `mark`.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (text.ends_with(mark.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

void append(std::vector<AnswerPart>& parts, AnswerPart more) {
  if (more.text.empty()) return;
  if (!parts.empty() && parts.back().kind == more.kind) {
    parts.back().text += more.text;
  } else {
    parts.push_back(std::move(more));
  }
}

std::string text_of(const std::vector<AnswerPart>& parts, AnswerPart::Kind kind) {
  std::string text;
  for (const AnswerPart& part : parts) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

std::vector<AnswerPart> AnswerSplitter::push(std::string_view text) {
  using Kind = AnswerPart::Kind;
  std::vector<AnswerPart> parts;
  held_ += text;
  if (state_ == State::kBefore) {
    const size_t at = std::min(held_.find_first_not_of(kBlanks), held_.size());
    const std::string_view rest = std::string_view(held_).substr(at);
    if (rest.starts_with(format_.begin_thought)) {
      held_.erase(0, at + format_.begin_thought.size());
      state_ = State::kThought;
      has_thought_ = true;
    } else if (!format_.begin_thought.starts_with(rest)) {
      state_ = State::kText;
    }
  }
  if (state_ == State::kThought) {
    const size_t at = held_.find(format_.end_thought);
    const bool is_closed = at != held_.npos;
    const size_t n_bytes = is_closed ? at : held_.size() - begun(held_, format_.end_thought);
    append(parts, {Kind::kThought, held_.substr(0, n_bytes)});
    held_.erase(0, is_closed ? at + format_.end_thought.size() : n_bytes);
    if (is_closed) state_ = State::kAfter;
  }
  if (state_ == State::kAfter) {  // the blanks between belong to neither
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (!held_.empty()) state_ = State::kText;
  }
  if (state_ == State::kText) append(parts, {Kind::kText, std::exchange(held_, {})});
  return parts;
}

std::vector<AnswerPart> AnswerSplitter::push_last(std::string_view text) {
  std::vector<AnswerPart> parts = push(text);
  const bool is_thought = state_ == State::kThought;
  append(parts, {is_thought ? AnswerPart::Kind::kThought : AnswerPart::Kind::kText,
                 std::exchange(held_, {})});
  return parts;
}

AnswerSplitter::Place AnswerSplitter::place() const {
  if (state_ == State::kThought) return Place::kThought;
  if (state_ != State::kBefore) return Place::kBehind;
  return held_.find_first_not_of(kBlanks) == held_.npos ? Place::kBlanks : Place::kOpening;
}

}  // namespace kvik
