#include "service/reasoning.h"

#include <algorithm>
#include <utility>

namespace kvik {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

// How much of the end of `text` could become `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::Parts ReasoningSplitter::push(std::string_view text) {
  Parts parts;
  held_ += text;
  if (state_ == State::kBefore) {
    const size_t at = std::min(held_.find_first_not_of(kBlanks), held_.size());
    const std::string_view rest = std::string_view(held_).substr(at);
    if (rest.starts_with(kOpen)) {
      held_.erase(0, at + kOpen.size());
      state_ = State::kThought;
      has_thought_ = true;
    } else if (!kOpen.starts_with(rest)) {
      state_ = State::kContent;
    }
  }
  if (state_ == State::kThought) {
    const size_t at = held_.find(kClose);
    const bool is_closed = at != held_.npos;
    const size_t n_bytes = is_closed ? at : held_.size() - begun(held_, kClose);
    parts.reasoning = held_.substr(0, n_bytes);
    held_.erase(0, is_closed ? at + kClose.size() : n_bytes);
    if (is_closed) state_ = State::kAfter;
  }
  if (state_ == State::kAfter) {  // the blanks between belong to neither
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (!held_.empty()) state_ = State::kContent;
  }
  if (state_ == State::kContent) parts.content = std::exchange(held_, {});
  return parts;
}

ReasoningSplitter::Place ReasoningSplitter::place() const {
  if (state_ == State::kThought) return Place::kThought;
  if (state_ != State::kBefore) return Place::kBehind;
  return held_.find_first_not_of(kBlanks) == held_.npos ? Place::kBlanks : Place::kOpening;
}

ReasoningSplitter::Parts ReasoningSplitter::finish() {
  Parts parts;
  (state_ == State::kThought ? parts.reasoning : parts.content) = std::exchange(held_, {});
  return parts;
}

ReasoningSplitter::Parts ReasoningSplitter::push_last(std::string_view text) {
  Parts parts = push(text);
  const Parts rest = finish();
  parts.reasoning += rest.reasoning;
  parts.content += rest.content;
  return parts;
}

}  // namespace kvik
