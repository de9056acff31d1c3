#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/answer_part.h"
#include "service/answer_syntax.h"
#include "service/tools/bare_call_reader.h"
#include "service/tools/call_reader.h"

namespace kvik {

// The state of an answer at its first token: kReasoning if the prompt ends inside an open reasoning
// block, so the answer begins with reasoning.
enum class AnswerBegin : uint8_t { kText, kReasoning };

// A byte range of reasoning in an answer, including its marks. An empty token at `begin` is not
// part of it.
struct ReasoningSpan {
  int64_t begin;
  int64_t end = std::numeric_limits<int64_t>::max();  // maximum until the end mark has arrived
};

// Returns the number of tokens that overlap a reasoning span. `token_ends`: the end of each token
// in the answer, in bytes.
uint32_t count_reasoning_tokens(std::span<const ReasoningSpan> spans,
                                std::span<const uint32_t> token_ends);

// Splits a growing answer into reasoning, text and tool calls:
//
//   blanks ─▶ reasoning ─▶ text ◀─▶ calls     header ─▶ reasoning, text or call ─▶ header …
//                           └─▶ bare calls    (harmony)
//
// Outside harmony, reasoning occurs only at the beginning of an answer, between its marks. The
// splitter holds back text that may be the beginning of a mark, a call until its arguments begin,
// calls without markup until the answer ends, and blanks that may precede a call. Blanks before and
// after a call belong to the format and are dropped. The concatenated parts do not depend on how
// the text is divided into pushes. Runs in time linear in the text. Nothing fails: text that is not
// a valid call is returned as text, and so is a call that the answer's end or other text breaks off
// before its arguments are complete (kBroken).
class AnswerSplitter {
 public:
  explicit AnswerSplitter(AnswerBegin begin, AnswerSyntax syntax = {});

  // Consumes the next piece of text and returns the parts that it completes. No part is empty.
  std::vector<AnswerPart> push(std::string_view text);

  // Consumes the last piece of text and also returns everything that was held back.
  std::vector<AnswerPart> push_last(std::string_view text);

  // Returns the number of complete calls.
  uint32_t n_calls() const { return n_calls_; }
  // Returns whether the text ends inside calls, and whether it does so after a call, before the
  // marks that close it are complete.
  bool is_in_calls() const { return calls_.has_value(); }
  bool is_closing_call() const { return calls_ && calls_->is_between_calls(); }
  // Returns whether the answer ended with calls that lack the markup of a format.
  bool has_bare_calls() const { return has_bare_calls_; }

  // Returns the reasoning spans so far, in order. may_reason() returns whether more may follow.
  const std::vector<ReasoningSpan>& reasoning() const { return reasoning_; }
  bool may_reason() const {
    return syntax_.has_channels || state_ == State::kBefore || state_ == State::kReasoning;
  }

 private:
  enum class State { kBefore, kReasoning, kAfter, kText, kCalls, kBareCalls, kHeader };

  void take(char byte);
  void take_before(char byte);
  void take_reasoning(char byte);
  void take_text(char byte);
  void take_call(char byte);
  bool follows_text() const { return !is_beginning_ && !is_after_call_; }
  bool may_begin_bare_calls(char byte) const;
  void take_bare_call(char byte);
  void end_bare_calls();
  void end_calls();
  std::string end_open_call();
  void end_text();
  void note_call();
  void take_header(char byte);
  void begin_header();
  void begin_reasoning(int64_t begin);
  void begin_message();
  bool ends_message(std::string_view held) const;
  bool may_end_message(std::string_view held) const;
  bool find_opening();
  void leave_calls(std::string_view text, std::string_view again);
  std::string_view plain_prefix(std::string_view text) const;
  void put_text(char byte);
  void say(std::string_view words);
  void put(AnswerPart::Kind kind, std::string_view text);
  void finish();

  AnswerSyntax syntax_;
  State state_;
  std::vector<ReasoningSpan> reasoning_;
  int64_t n_read_ = 0;         // number of bytes read
  int64_t header_begin_ = -1;  // offset at which reasoning begins if this header starts any
  // bytes that may begin a mark in text; all others are copied unexamined
  std::string mark_first_bytes_;
  std::string held_;    // a possible mark, or the current header
  std::string blanks_;  // blanks that may precede a mark
  std::optional<CallReader> calls_;
  std::string before_calls_;  // what separates the first of calls_ from earlier text
  std::optional<BareCallReader> bare_calls_;
  uint32_t n_calls_ = 0;
  bool is_beginning_ = true;  // neither text nor a call has come yet
  bool is_after_call_ = false;
  bool has_bare_calls_ = false;
  bool is_new_message_ = false;    // the next text begins another harmony message
  std::vector<AnswerPart> parts_;  // result of the current push
};

}  // namespace kvik
