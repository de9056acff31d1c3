#include "service/answer_parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/blanks.h"

namespace kvik {
namespace {

constexpr size_t kMaxHeader = 320;
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kMessageBreak = "\n\n";  // between messages of harmony
constexpr std::array<std::string_view, 5> kMessageEnds = {kMessageEnd, kMessageStart, kChannel,
                                                          "<|call|>", "<|return|>"};

const ToolSchemas kNoTools;

// Returns a header without the marks between the message before it and its own.
std::string_view own_header(std::string_view header) {
  for (const std::string_view mark : {kMessageEnd, kNextMessage}) {
    if (header.starts_with(mark)) header.remove_prefix(mark.size());
  }
  return header;
}

// Returns the word after a mark in a header; empty if the mark is absent.
std::string_view word_after(std::string_view header, std::string_view mark) {
  const size_t at = header.rfind(mark);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" \n<"));
}

}  // namespace

void append(std::vector<AnswerPart>& parts, AnswerPart more) {
  using Kind = AnswerPart::Kind;
  if (more.kind == Kind::kBroken && !parts.empty() && parts.back().kind == Kind::kCall) {
    parts.pop_back();
    more.kind = Kind::kText;
  }
  const bool is_call = more.kind == Kind::kCall || more.kind == Kind::kBroken;
  if (!is_call && more.text.empty()) return;
  const bool continues_call =
      more.kind == Kind::kArguments && !parts.empty() && parts.back().kind == Kind::kCall;
  const bool continues_text = !is_call && !parts.empty() && parts.back().kind == more.kind;
  if (continues_call || continues_text) {
    parts.back().text += more.text;
  } else {
    parts.push_back(std::move(more));
  }
}

std::vector<AnswerPart> WholeCalls::take(std::vector<AnswerPart> parts, bool is_last) {
  for (AnswerPart& part : parts) append(held_, std::move(part));
  std::vector<AnswerPart> out = std::exchange(held_, {});
  if (is_last || out.empty() || out.back().kind != AnswerPart::Kind::kCall) return out;
  held_.push_back(std::move(out.back()));
  out.pop_back();
  return out;
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

bool continues_call(const std::vector<AnswerPart>& parts) {
  return !parts.empty() && parts.front().kind == AnswerPart::Kind::kArguments;
}

bool breaks_call(const std::vector<AnswerPart>& parts) {
  return std::ranges::find(parts, AnswerPart::Kind::kBroken, &AnswerPart::kind) != parts.end();
}

uint32_t count_reasoning_tokens(std::span<const ReasoningSpan> spans,
                                std::span<const uint32_t> token_ends) {
  uint32_t n_tokens = 0;
  int64_t begin = 0;
  for (const int64_t end : token_ends) {
    while (!spans.empty() && spans.front().end <= begin) spans = spans.subspan(1);
    if (!spans.empty() && spans.front().begin < end) ++n_tokens;
    begin = end;
  }
  return n_tokens;
}

AnswerSplitter::AnswerSplitter(AnswerBegin begin, AnswerSyntax syntax)
    : syntax_(std::move(syntax)), state_(State::kBefore) {
  if (syntax_.has_channels) {
    for (const std::string_view end : kMessageEnds) mark_first_bytes_ += end.front();
    state_ = State::kHeader;
  } else if (begin == AnswerBegin::kReasoning) {
    begin_reasoning(-1);
  }
  if (!syntax_.has_channels && !syntax_.calls.empty()) mark_first_bytes_ += kBlanks;
  for (const ToolFormat* format : syntax_.calls) {
    for (const CallSteps::Begin& begin : format->reading.begins)
      mark_first_bytes_ += begin.mark.substr(0, 1);
  }
  if (syntax_.reads_bare_calls) mark_first_bytes_ += BareCallReader::kFirstBytes;
}

std::vector<AnswerPart> AnswerSplitter::push(std::string_view text) {
  while (!text.empty()) {
    const std::string_view words = plain_prefix(text);
    n_read_ += words.empty() ? 1 : std::ssize(words);
    if (words.empty()) {
      take(text.front());
      text.remove_prefix(1);
    } else {
      say(words);
      text.remove_prefix(words.size());
    }
  }
  if (calls_) calls_->emit(parts_);
  return std::exchange(parts_, {});
}

// Returns the longest prefix that is text and contains no byte that may begin a mark.
std::string_view AnswerSplitter::plain_prefix(std::string_view text) const {
  if (state_ != State::kText || !held_.empty()) return {};
  if (is_after_call_ && is_blank(text.front())) return {};
  return text.substr(0, text.find_first_of(mark_first_bytes_));
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
      return end_text();
    case State::kReasoning:
      put(AnswerPart::Kind::kReasoning, held_);
      break;
    case State::kCalls:
      return end_calls();
    case State::kBareCalls:
      return end_bare_calls();
    case State::kHeader:
      is_new_message_ = follows_text();
      if (held_.contains(kRecipient) || (is_beginning_ && !held_.contains('<')))
        say(own_header(held_));
      break;
    case State::kAfter:
      break;
  }
}

void AnswerSplitter::end_text() {
  for (const char byte : taken(held_)) put_text(byte);
  if (!is_after_call_) put(AnswerPart::Kind::kText, blanks_);
}

void AnswerSplitter::end_calls() {
  if (calls_->is_between_calls()) return;
  leave_calls(end_open_call(), "");
  end_text();
}

void AnswerSplitter::end_bare_calls() {
  std::vector<AnswerPart> calls = bare_calls_->calls();
  if (calls.empty()) {
    for (const char byte : bare_calls_->text()) put_text(byte);
    put(AnswerPart::Kind::kText, blanks_);
    return;
  }
  note_call();
  has_bare_calls_ = true;
  n_calls_ += static_cast<uint32_t>(calls.size());
  std::ranges::move(calls, std::back_inserter(parts_));
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
    case State::kReasoning:
      return take_reasoning(byte);
    case State::kAfter:  // blanks between reasoning and text belong to neither
      if (is_blank(byte)) return;
      state_ = State::kText;
      return take_text(byte);
    case State::kText:
      return take_text(byte);
    case State::kCalls:
      return take_call(byte);
    case State::kBareCalls:
      return take_bare_call(byte);
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
  const std::string_view mark = syntax_.reasoning_marks->begin_reasoning;
  if (held_ == mark) return begin_reasoning(n_read_ - std::ssize(mark));
  if (mark.starts_with(held_)) return;
  state_ = State::kText;
  const std::string held = taken(held_);
  for (const char each : held) take(each);
}

void AnswerSplitter::begin_reasoning(int64_t begin) {
  held_.clear();
  blanks_.clear();
  state_ = State::kReasoning;
  reasoning_.push_back({begin});
}

void AnswerSplitter::take_reasoning(char byte) {
  held_ += byte;
  const std::string_view end = syntax_.reasoning_marks->end_reasoning;
  const auto may_end = [&] {
    return syntax_.has_channels ? may_end_message(held_) : end.starts_with(held_);
  };
  std::string reasoning;
  while (!may_end()) {
    reasoning += held_.front();
    held_.erase(0, 1);
  }
  put(AnswerPart::Kind::kReasoning, reasoning);
  if (syntax_.has_channels ? ends_message(held_) : held_ == end) {
    reasoning_.back().end = n_read_;
    if (syntax_.has_channels) return begin_header();
    state_ = State::kAfter;
    held_.clear();
  }
}

// Begins a header. The header begins with the mark that ended the previous message. A token that
// ends with this mark, or comes after it, is reasoning if the next message is reasoning.
void AnswerSplitter::begin_header() {
  state_ = State::kHeader;
  header_begin_ = n_read_ - 1;
}

bool AnswerSplitter::ends_message(std::string_view held) const {
  return std::ranges::find(kMessageEnds, held) != kMessageEnds.end();
}

bool AnswerSplitter::may_end_message(std::string_view held) const {
  return std::ranges::any_of(kMessageEnds,
                             [&](std::string_view end) { return end.starts_with(held); });
}

// Consumes a byte of text, which may open calls or end a message.
void AnswerSplitter::take_text(char byte) {
  held_ += byte;
  while (!held_.empty()) {
    if (syntax_.has_channels) {
      if (ends_message(held_)) return begin_header();
      if (may_end_message(held_)) return;
    } else if (find_opening()) {
      return;
    }
    const char first = held_.front();
    if (may_begin_bare_calls(first)) {
      bare_calls_.emplace(*syntax_.tools);
      state_ = State::kBareCalls;
      for (const char each : taken(held_)) take(each);
      return;
    }
    held_.erase(0, 1);
    put_text(first);
  }
}

// Returns whether the held bytes are a mark that opens calls or the beginning of one.
bool AnswerSplitter::find_opening() {
  bool may_come = false;
  for (const ToolFormat* format : syntax_.calls) {
    for (const CallSteps::Begin& begin : format->reading.begins) {
      const bool is_in_place = is_beginning_ || !begin.begins_answer;
      if (begin.mark.empty() || !is_in_place || !begin.mark.starts_with(held_)) continue;
      may_come = true;
      if (held_.size() < begin.mark.size()) continue;
      held_.clear();
      before_calls_ = is_after_call_ ? "" : blanks_;
      calls_.emplace(*format, syntax_.tools ? *syntax_.tools : kNoTools, begin);
      state_ = State::kCalls;
      return true;
    }
  }
  return may_come;
}

// Adds a byte of text. Blanks are held back while calls may follow.
void AnswerSplitter::put_text(char byte) {
  const bool may_call = !syntax_.calls.empty() && !syntax_.has_channels;
  if (is_blank(byte) && (may_call || is_after_call_ || state_ == State::kBefore)) {
    blanks_ += byte;
    return;
  }
  say(std::string_view(&byte, 1));
}

void AnswerSplitter::say(std::string_view words) {
  if (!blanks_.empty()) {
    if (!is_after_call_) put(AnswerPart::Kind::kText, blanks_);
    blanks_.clear();
  }
  is_beginning_ = is_after_call_ = false;
  if (std::exchange(is_new_message_, false)) put(AnswerPart::Kind::kText, kMessageBreak);
  put(AnswerPart::Kind::kText, words);
}

void AnswerSplitter::take_call(char byte) {
  const uint32_t n_before = calls_->n_whole();
  const CallReader::State state = calls_->push(byte, parts_);
  const bool has_ended = calls_->n_whole() > n_before;
  n_calls_ += calls_->n_whole() - n_before;
  if (has_ended || calls_->is_open()) note_call();
  if (has_ended) before_calls_.clear();
  if (state == CallReader::State::kMore) return;
  if (state == CallReader::State::kEnded) return leave_calls("", "");
  const std::string rest = end_open_call();
  const size_t n_text = rest.size() - std::min(calls_->n_again(), rest.size());
  leave_calls(std::string_view(rest).substr(0, n_text), std::string_view(rest).substr(n_text));
}

// Ends the call that is open where the model breaks it off: it is one if its arguments are
// complete. Returns the input that no part contains.
std::string AnswerSplitter::end_open_call() {
  const std::string_view text = calls_->text();
  if (!calls_->is_open()) return std::string(text);
  calls_->emit(parts_);
  if (calls_->has_whole_arguments()) {
    ++n_calls_;
    return std::string(text.substr(text.size() - calls_->n_again()));
  }
  const size_t n_sent = calls_->n_sent();
  kvik::append(parts_, {.kind = AnswerPart::Kind::kBroken,
                        .text = before_calls_.append(text.substr(0, n_sent))});
  is_after_call_ = false;
  return std::string(text.substr(n_sent));
}

// Records that a call has begun, and drops the blanks between text and the call, which belong to
// neither.
void AnswerSplitter::note_call() {
  blanks_.clear();
  is_after_call_ = true;
  is_beginning_ = is_new_message_ = false;
}

bool AnswerSplitter::may_begin_bare_calls(char byte) const {
  return syntax_.reads_bare_calls && syntax_.tools && n_calls_ == 0 &&
         BareCallReader::may_begin(byte);
}

void AnswerSplitter::take_bare_call(char byte) {
  if (bare_calls_->push(byte) == BareCallReader::State::kMore) return;
  const std::string text = bare_calls_->text();
  bare_calls_.reset();
  state_ = State::kText;
  for (const char each : std::string_view(text).substr(0, text.size() - 1)) put_text(each);
  take(text.back());  // this byte may begin another construct
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
  if (held_.ends_with(kMessageBody)) return begin_message();
  if (held_.size() <= kMaxHeader) return;
  state_ = State::kText;  // too long for a header
  const std::string held = taken(held_);
  for (const char each : held) put_text(each);
}

void AnswerSplitter::begin_message() {
  constexpr std::string_view kFunctions = "functions.";
  const std::string header = taken(held_);
  const std::string_view recipient = word_after(header, kRecipient);
  is_new_message_ = follows_text();
  const bool has_name = recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size();
  if (has_name && !syntax_.calls.empty()) {
    before_calls_ = is_new_message_ ? kMessageBreak : "";
    calls_.emplace(*syntax_.calls.front(), syntax_.tools ? *syntax_.tools : kNoTools,
                   std::string(own_header(header)),
                   std::string(recipient.substr(kFunctions.size())));
    state_ = State::kCalls;
  } else if (word_after(header, kChannel) == "analysis") {
    begin_reasoning(header_begin_);
    if (reasoning_.size() > 1) put(AnswerPart::Kind::kReasoning, "\n");
  } else {
    state_ = State::kText;
  }
}

}  // namespace kvik
