#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvik {

// A piece of an answer, by what it is to a reader.
struct AnswerPart {
  enum class Kind : uint8_t { kThought, kText, kCall };
  Kind kind;
  std::string text;       // of a call: its arguments, a JSON object
  std::string name = {};  // of a call: the tool's
  std::string id = {};    // of a call: as the model wrote it, where it does

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Puts more behind the parts so far; what goes on in the last one is appended to it. Each call is a
// part of its own.
void append(std::vector<AnswerPart>& parts, AnswerPart more);

// All text of that kind.
std::string text_of(const std::vector<AnswerPart>& parts, AnswerPart::Kind kind);

bool has_call(const std::vector<AnswerPart>& parts);

}  // namespace kvik
