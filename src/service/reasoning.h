#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Parts a growing answer into what the model thought, between <think> and </think> at its
// beginning, and what it says. Holds back what could be the beginning of a tag.
class ReasoningSplitter {
 public:
  // Where the chat template itself opened the thought, the answer begins inside it.
  enum class Begin { kAnswer, kThought };
  explicit ReasoningSplitter(Begin begin)
      : state_(begin == Begin::kThought ? State::kThought : State::kBefore),
        has_thought_(begin == Begin::kThought) {}

  struct Parts {
    std::string reasoning;
    std::string content;
  };
  Parts push(std::string_view text);

  // What was held back, when no more text comes.
  Parts finish();

  // The last piece of text, and what was held back.
  Parts push_last(std::string_view text);

  // Where the text so far ends: in blanks, in what may become the opening mark, in the thought, or
  // behind it, as an answer without one always is.
  enum class Place { kBlanks, kOpening, kThought, kBehind };
  Place place() const;
  bool has_thought() const { return has_thought_; }

 private:
  enum class State { kBefore, kThought, kAfter, kContent };

  State state_;
  bool has_thought_;
  std::string held_;
};

}  // namespace kvik
