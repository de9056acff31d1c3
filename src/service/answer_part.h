#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvik {

// A piece of an answer: reasoning, text, a tool call, or further arguments of a tool call.
struct AnswerPart {
  enum class Kind : uint8_t { kReasoning, kText, kCall, kArguments, kBroken };
  Kind kind;
  // For a call: the part of its arguments (a JSON object) that has arrived so far. The rest follows
  // directly in parts of kind kArguments. If the model breaks the call off, they are followed by a
  // part of kind kBroken: what began is no call, and its text is what the model wrote in place of
  // the name and the arguments. Where nothing was sent yet, append() makes text of both.
  std::string text;
  std::string name = {};  // name of the called tool
  std::string id = {};    // id of the call, if the model wrote one

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Appends a part. Text is merged with a preceding part of the same kind, arguments with their call.
// Each call is a part of its own. One that breaks off becomes text.
void append(std::vector<AnswerPart>& parts, AnswerPart more);

// Holds a call of a stream back until it is complete, which it is when another part or the end
// follows. One that breaks off becomes text.
class WholeCalls {
 public:
  // Returns the parts so far that are complete. is_last: no more follow.
  std::vector<AnswerPart> take(std::vector<AnswerPart> parts, bool is_last);

 private:
  std::vector<AnswerPart> held_;
};

// Returns the concatenated text of all parts of that kind.
std::string text_of(const std::vector<AnswerPart>& parts, AnswerPart::Kind kind);

bool has_call(const std::vector<AnswerPart>& parts);

// Returns whether the first part continues the arguments of a call that an earlier list began.
bool continues_call(const std::vector<AnswerPart>& parts);

// Returns whether a call that an earlier list began breaks off.
bool breaks_call(const std::vector<AnswerPart>& parts);

}  // namespace kvik
