#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvik {

// A piece of an answer, by what it is to a reader.
struct AnswerPart {
  enum class Kind : uint8_t { kThought, kText, kCall, kArguments };
  Kind kind;
  // A call's text is its arguments, a JSON object, as far as they came with this part. More of them
  // follow in parts of kArguments, directly after it; a call that was cut off has a beginning only.
  std::string text;
  std::string name = {};  // of a call: the tool's
  std::string id = {};    // of a call: as the model wrote it, where it does

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Appends a part. Text that continues the last part is merged with it, arguments with their call.
// Each call is a part of its own.
void append(std::vector<AnswerPart>& parts, AnswerPart more);

// All text of that kind.
std::string text_of(const std::vector<AnswerPart>& parts, AnswerPart::Kind kind);

bool has_call(const std::vector<AnswerPart>& parts);

// Returns whether the first part continues the arguments of a call that was opened before.
bool continues_call(const std::vector<AnswerPart>& parts);

}  // namespace kvik
