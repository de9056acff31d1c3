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

// Where the chat template itself opened the thought, the answer begins inside it.
enum class AnswerBegin : uint8_t { kText, kThought };

// A range of reasoning in an answer, in bytes, with the marks around it. An empty token at `begin`
// is outside.
struct ReasoningSpan {
  int64_t begin;
  int64_t end = std::numeric_limits<int64_t>::max();  // so it is until its last mark came
};

// Returns how many tokens have a part in reasoning. `token_ends`: the end of each in the answer.
uint32_t count_reasoning_tokens(std::span<const ReasoningSpan> spans,
                                std::span<const uint32_t> token_ends);

// Parts a growing answer into what the model thought, what it says and the tools it calls:
//
//   blanks ─▶ thought ─▶ text ◀─▶ calls        header ─▶ thought, text or call ─▶ header …
//                         └─▶ bare calls       (harmony)
//
// A thought stands at the beginning, between its marks. Holds back what could be the beginning of a
// mark, a call until its arguments begin, calls without markup until the answer ends, and blanks
// that may stand before a call: they are the format's, as are those after it. However the text is
// cut, the parts put together are the same. Linear in the text; nothing fails: what is no call is
// text.
class AnswerSplitter {
 public:
  explicit AnswerSplitter(AnswerBegin begin, AnswerSyntax syntax = {});

  // None of the parts is empty.
  std::vector<AnswerPart> push(std::string_view text);

  // The last piece of text, and what was held back. Where the answer was cut off, a call in the
  // making is handed out as far as it came, and markup before its arguments is dropped.
  using Ending = BareCallReader::Ending;
  std::vector<AnswerPart> push_last(std::string_view text, Ending ending = Ending::kWhole);

  // Calls that came whole.
  uint32_t n_calls() const { return n_calls_; }

  // The reasoning so far, in order, and whether more may follow.
  const std::vector<ReasoningSpan>& reasoning() const { return reasoning_; }
  bool may_reason() const {
    return syntax_.has_channels || state_ == State::kBefore || state_ == State::kThought;
  }

 private:
  enum class State { kBefore, kThought, kAfter, kText, kCalls, kBareCalls, kHeader };

  void take(char byte);
  void take_before(char byte);
  void take_thought(char byte);
  void take_text(char byte);
  void take_call(char byte);
  bool may_begin_bare_calls(char byte) const;
  void take_bare_call(char byte);
  void end_bare_calls(Ending ending);
  void end_calls(Ending ending);
  void end_text(Ending ending);
  void note_call();
  void take_header(char byte);
  void begin_header();
  void begin_thought(int64_t begin);
  void begin_message();
  bool ends_message(std::string_view held) const;
  bool may_end_message(std::string_view held) const;
  bool find_opening();
  void leave_calls(std::string_view text, std::string_view again);
  std::string_view words_at_front(std::string_view text) const;
  void put_text(char byte);
  void say(std::string_view words);
  void put(AnswerPart::Kind kind, std::string_view text);
  void finish(Ending ending);

  AnswerSyntax syntax_;
  State state_;
  std::vector<ReasoningSpan> reasoning_;
  int64_t n_read_ = 0;         // bytes
  int64_t header_begin_ = -1;  // where the header's reasoning would begin
  std::string watched_;        // bytes of what is said that are looked at one by one
  std::string held_;           // what may become a mark; a header
  std::string blanks_;         // that may stand before a mark
  std::optional<CallReader> calls_;
  std::optional<BareCallReader> bare_calls_;
  uint32_t n_calls_ = 0;
  bool is_beginning_ = true;  // nothing has been said yet
  bool is_behind_call_ = false;
  bool is_new_message_ = false;    // of several, in channels
  std::vector<AnswerPart> parts_;  // of this push
};

}  // namespace kvik
