#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/answer_format.h"

namespace kvik {

// A piece of an answer, by what it is to a reader.
struct AnswerPart {
  enum class Kind : uint8_t { kThought, kText };
  Kind kind;
  std::string text;

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Puts more behind the parts so far; what goes on in the last one is appended to it.
void append(std::vector<AnswerPart>& parts, AnswerPart more);

// All text of that kind.
std::string text_of(const std::vector<AnswerPart>& parts, AnswerPart::Kind kind);

// Where the chat template itself opened the thought, the answer begins inside it.
enum class AnswerBegin : uint8_t { kText, kThought };

// Parts a growing answer into what the model thought, at its beginning between the format's marks,
// and what it says. Holds back what could be the beginning of a mark. However the text is cut, the
// parts put together are the same.
class AnswerSplitter {
 public:
  explicit AnswerSplitter(AnswerBegin begin, const AnswerFormat& format = kThinkTags)
      : format_(format),
        state_(begin == AnswerBegin::kThought ? State::kThought : State::kBefore),
        has_thought_(begin == AnswerBegin::kThought) {}

  // None of the parts is empty.
  std::vector<AnswerPart> push(std::string_view text);

  // The last piece of text, and what was held back.
  std::vector<AnswerPart> push_last(std::string_view text);

  // Where the text so far ends: in blanks, in what may become the opening mark, in the thought, or
  // behind it, as an answer without one always is.
  enum class Place { kBlanks, kOpening, kThought, kBehind };
  Place place() const;
  bool has_thought() const { return has_thought_; }

 private:
  enum class State { kBefore, kThought, kAfter, kText };

  AnswerFormat format_;
  State state_;
  bool has_thought_;
  std::string held_;
};

}  // namespace kvik
