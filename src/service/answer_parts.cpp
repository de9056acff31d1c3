#include "service/answer_parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/blanks.h"

namespace kvik {
namespace {

constexpr size_t kMaxHeader = 320;
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::array<std::string_view, 5> kMessageEnds = {"<|end|>", "<|start|>", "<|channel|>",
                                                          "<|call|>", "<|return|>"};

const ToolSchemas kNoTools;

// The word behind a mark of a header; empty where it is not there.
std::string_view word_behind(std::string_view header, std::string_view mark) {
  const size_t at = header.rfind(mark);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" \n<"));
}

}  // namespace

void append(std::vector<AnswerPart>& parts, AnswerPart more) {
  const bool is_call = more.kind == AnswerPart::Kind::kCall;
  if (!is_call && more.text.empty()) return;
  if (!is_call && !parts.empty() && parts.back().kind == more.kind) {
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

bool has_call(const std::vector<AnswerPart>& parts) {
  return std::ranges::find(parts, AnswerPart::Kind::kCall, &AnswerPart::kind) != parts.end();
}

AnswerSplitter::AnswerSplitter(AnswerBegin begin, AnswerSyntax syntax)
    : syntax_(std::move(syntax)), state_(State::kBefore) {
  if (syntax_.has_channels) {
    for (const std::string_view end : kMessageEnds) watched_ += end.front();
    state_ = State::kHeader;
  } else if (begin == AnswerBegin::kThought) {
    begin_thought();
  }
  if (!syntax_.has_channels && !syntax_.calls.empty()) watched_ += kBlanks;
  for (const ToolFormat* format : syntax_.calls) {
    for (const ToolFormat::Begin& begin : format->begins) watched_ += begin.mark.substr(0, 1);
  }
}

std::vector<AnswerPart> AnswerSplitter::push(std::string_view text) {
  while (!text.empty()) {
    const std::string_view words = words_at_front(text);
    if (words.empty()) {
      take(text.front());
      text.remove_prefix(1);
    } else {
      say(words);
      text.remove_prefix(words.size());
    }
  }
  return std::exchange(parts_, {});
}

// Bytes of what is said that cannot belong to a mark.
std::string_view AnswerSplitter::words_at_front(std::string_view text) const {
  if (state_ != State::kText || !held_.empty()) return {};
  if (is_behind_call_ && is_blank(text.front())) return {};
  return text.substr(0, text.find_first_of(watched_));
}

std::vector<AnswerPart> AnswerSplitter::push_last(std::string_view text) {
  std::vector<AnswerPart> parts = push(text);
  finish();
  for (AnswerPart& part : parts_) append(parts, std::move(part));
  parts_.clear();
  return parts;
}

void AnswerSplitter::finish() {
  switch (state_) {
    case State::kBefore:
    case State::kText:
      for (const char byte : taken(held_)) put_text(byte);
      if (!is_behind_call_) put(AnswerPart::Kind::kText, blanks_);
      break;
    case State::kThought:
      put(AnswerPart::Kind::kThought, held_);
      break;
    case State::kCalls:
      if (!calls_->is_between_calls()) leave_calls(calls_->text(), "");
      break;
    case State::kHeader:
      if (is_beginning_ && !held_.contains('<') && !held_.contains(kRecipient)) {
        put(AnswerPart::Kind::kText, held_);
      }
      break;
    case State::kAfter:
      break;
  }
}

void AnswerSplitter::put(AnswerPart::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().kind != kind) parts_.push_back({kind, ""});
  parts_.back().text += text;
}

void AnswerSplitter::take(char byte) {
  switch (state_) {
    case State::kBefore:
      return take_before(byte);
    case State::kThought:
      return take_thought(byte);
    case State::kAfter:  // the blanks between belong to neither
      if (is_blank(byte)) return;
      state_ = State::kText;
      return take_text(byte);
    case State::kText:
      return take_text(byte);
    case State::kCalls:
      return take_call(byte);
    case State::kHeader:
      return take_header(byte);
  }
}

void AnswerSplitter::take_before(char byte) {
  if (held_.empty() && is_blank(byte)) {
    blanks_ += byte;
    return;
  }
  held_ += byte;
  if (held_ == syntax_.thoughts->begin_thought) return begin_thought();
  if (syntax_.thoughts->begin_thought.starts_with(held_)) return;
  state_ = State::kText;
  const std::string held = taken(held_);
  for (const char each : held) take(each);
}

void AnswerSplitter::begin_thought() {
  held_.clear();
  blanks_.clear();
  state_ = State::kThought;
  ++n_thoughts_;
}

void AnswerSplitter::take_thought(char byte) {
  held_ += byte;
  const std::string_view end = syntax_.thoughts->end_thought;
  const auto may_end = [&] {
    return syntax_.has_channels ? may_end_message(held_) : end.starts_with(held_);
  };
  std::string thought;
  while (!may_end()) {
    thought += held_.front();
    held_.erase(0, 1);
  }
  put(AnswerPart::Kind::kThought, thought);
  if (syntax_.has_channels ? ends_message(held_) : held_ == end) {
    state_ = syntax_.has_channels ? State::kHeader : State::kAfter;
    if (!syntax_.has_channels) held_.clear();
  }
}

bool AnswerSplitter::ends_message(std::string_view held) const {
  return std::ranges::find(kMessageEnds, held) != kMessageEnds.end();
}

bool AnswerSplitter::may_end_message(std::string_view held) const {
  return std::ranges::any_of(kMessageEnds,
                             [&](std::string_view end) { return end.starts_with(held); });
}

// One more byte of what is said, unless it may open calls or end a message.
void AnswerSplitter::take_text(char byte) {
  held_ += byte;
  while (!held_.empty()) {
    if (syntax_.has_channels) {
      if (ends_message(held_)) {
        state_ = State::kHeader;
        return;
      }
      if (may_end_message(held_)) return;
    } else if (find_opening()) {
      return;
    }
    const char first = held_.front();
    held_.erase(0, 1);
    put_text(first);
  }
}

// True where what is held may become a mark that opens calls, or has.
bool AnswerSplitter::find_opening() {
  bool may_come = false;
  for (const ToolFormat* format : syntax_.calls) {
    for (const ToolFormat::Begin& begin : format->begins) {
      const bool is_in_place = is_beginning_ || !begin.begins_answer;
      if (begin.mark.empty() || !is_in_place || !begin.mark.starts_with(held_)) continue;
      may_come = true;
      if (held_.size() < begin.mark.size()) continue;
      held_.clear();
      calls_.emplace(*format, syntax_.tools ? *syntax_.tools : kNoTools, begin);
      state_ = State::kCalls;
      return true;
    }
  }
  return may_come;
}

// Blanks are held back as long as calls may follow.
void AnswerSplitter::put_text(char byte) {
  const bool may_call = !syntax_.calls.empty() && !syntax_.has_channels;
  if (is_blank(byte) && (may_call || is_behind_call_ || state_ == State::kBefore)) {
    blanks_ += byte;
    return;
  }
  say(std::string_view(&byte, 1));
}

void AnswerSplitter::say(std::string_view words) {
  if (!blanks_.empty()) {
    if (!is_behind_call_) put(AnswerPart::Kind::kText, blanks_);
    blanks_.clear();
  }
  is_beginning_ = is_behind_call_ = false;
  if (std::exchange(is_new_message_, false)) put(AnswerPart::Kind::kText, "\n\n");
  put(AnswerPart::Kind::kText, words);
}

void AnswerSplitter::take_call(char byte) {
  std::vector<AnswerPart> calls;
  const CallReader::State state = calls_->push(byte, calls);
  if (!calls.empty()) {
    blanks_.clear();
    is_behind_call_ = true;
    is_beginning_ = is_new_message_ = false;
    std::ranges::move(calls, std::back_inserter(parts_));
  }
  if (state == CallReader::State::kMore) return;
  if (state == CallReader::State::kEnded) return leave_calls("", "");
  const std::string text = calls_->text();
  const size_t n_text = text.size() - calls_->n_again();
  leave_calls(std::string_view(text).substr(0, n_text), std::string_view(text).substr(n_text));
}

void AnswerSplitter::leave_calls(std::string_view text, std::string_view again) {
  const std::string said(text), more(again);
  calls_.reset();
  state_ = State::kText;
  for (const char byte : said) put_text(byte);
  if (!said.empty()) is_beginning_ = false;
  for (const char byte : more) take(byte);
}

// "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
void AnswerSplitter::take_header(char byte) {
  held_ += byte;
  if (held_.ends_with(kMessage)) return begin_message();
  if (held_.size() <= kMaxHeader) return;
  state_ = State::kText;  // no header, whatever it is
  const std::string held = taken(held_);
  for (const char each : held) put_text(each);
}

void AnswerSplitter::begin_message() {
  constexpr std::string_view kFunctions = "functions.";
  const std::string header = taken(held_);
  const std::string_view recipient = word_behind(header, kRecipient);
  is_new_message_ = !is_beginning_ && !is_behind_call_;
  const bool has_name = recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size();
  if (has_name && !syntax_.calls.empty()) {
    calls_.emplace(*syntax_.calls.front(), syntax_.tools ? *syntax_.tools : kNoTools,
                   std::string(recipient.substr(kFunctions.size())));
    state_ = State::kCalls;
  } else if (word_behind(header, kChannel) == "analysis") {
    begin_thought();
    if (n_thoughts_ > 1) put(AnswerPart::Kind::kThought, "\n");
  } else {
    state_ = State::kText;
  }
}

AnswerSplitter::Place AnswerSplitter::place() const {
  if (state_ == State::kThought) return Place::kThought;
  if (state_ == State::kHeader) return Place::kOpening;
  if (state_ != State::kBefore) return Place::kBehind;
  return held_.empty() ? Place::kBlanks : Place::kOpening;
}

}  // namespace kvik
