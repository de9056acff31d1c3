#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/answer_part.h"
#include "service/answer_syntax.h"
#include "service/tools/call_reader.h"

namespace kvik {

// Where the chat template itself opened the thought, the answer begins inside it.
enum class AnswerBegin : uint8_t { kText, kThought };

// Parts a growing answer into what the model thought, what it says and the tools it calls:
//
//   blanks ─▶ thought ─▶ text ◀─▶ calls        header ─▶ thought, text or call ─▶ header …
//   (harmony)
//
// A thought stands at the beginning, between its marks. Holds back what could be the beginning of a
// mark, a call until all of it has come, and blanks that may stand before one: they are the
// format's, as are those behind it. However the text is cut, the parts put together are the same.
// Linear in the text; nothing fails: what is no call is text.
class AnswerSplitter {
 public:
  explicit AnswerSplitter(AnswerBegin begin, AnswerSyntax syntax = {});

  // None of the parts is empty.
  std::vector<AnswerPart> push(std::string_view text);

  // The last piece of text, and what was held back.
  std::vector<AnswerPart> push_last(std::string_view text);

  // Where the text so far ends: in blanks, in what may become the opening mark of a thought, in the
  // thought, or behind it, as an answer without one always is.
  enum class Place { kBlanks, kOpening, kThought, kBehind };
  Place place() const;
  uint32_t n_thoughts() const { return n_thoughts_; }

 private:
  enum class State { kBefore, kThought, kAfter, kText, kCalls, kHeader };

  void take(char byte);
  void take_before(char byte);
  void take_thought(char byte);
  void take_text(char byte);
  void take_call(char byte);
  void take_header(char byte);
  void begin_thought();
  void begin_message();
  bool ends_message(std::string_view held) const;
  bool may_end_message(std::string_view held) const;
  bool find_opening();
  void leave_calls(std::string_view text, std::string_view again);
  std::string_view words_at_front(std::string_view text) const;
  void put_text(char byte);
  void say(std::string_view words);
  void put(AnswerPart::Kind kind, std::string_view text);
  void finish();

  AnswerSyntax syntax_;
  State state_;
  uint32_t n_thoughts_ = 0;
  std::string watched_;  // bytes of what is said that are looked at one by one
  std::string held_;     // what may become a mark; a header
  std::string blanks_;   // that may stand before a mark
  std::optional<CallReader> calls_;
  bool is_beginning_ = true;  // nothing has been said yet
  bool is_behind_call_ = false;
  bool is_new_message_ = false;    // of several, in channels
  std::vector<AnswerPart> parts_;  // of this push
};

}  // namespace kvik
