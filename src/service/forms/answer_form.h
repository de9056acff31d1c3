#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// The form that an answer must keep to, as a client says it. Where a chat's answer begins with a
// thought, the form is of what follows it.
//
// A form made of parts (a tool's call: a mark, arguments by their schema, another mark) is a Lark
// grammar: `start: "<tool_call>" %json {"type": "object"} "</tool_call>"`.
struct AnswerForm {
  enum class Kind : uint8_t {
    kJsonObject,  // any object
    kJsonSchema,  // `text`: the schema, as JSON
    kRegex,       // `text`: an expression that the whole answer matches
    kChoice,      // `choices`: one of them
    kGbnf,        // `text`: a grammar of llama.cpp's dialect
    kLark,        // `text`: a grammar as LLGuidance takes it
  };
  // kRelaxed: what of a schema cannot be kept is left out, and told (Completion::relaxed).
  enum class Strictness : uint8_t { kStrict, kRelaxed };
  // Of JSON: none; or what people who indent by two put between its words.
  enum class Whitespace : uint8_t { kCompact, kFlexible };

  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  Strictness strictness = Strictness::kStrict;
  Whitespace whitespace = Whitespace::kCompact;
  // Special tokens that stand for their text in it, ascending; no others may come.
  std::vector<TokenId> marks = {};
  std::string param = "response_format";  // the field that errors name
  // Of harmony: its text begins with the header of its message, behind "<|start|>assistant";
  // otherwise the form is what the final message says.
  bool brings_header = false;

  friend bool operator==(const AnswerForm&, const AnswerForm&) = default;
};

// A grammar in whichever of the two dialects it is: GBNF's rules are written with `::=`.
inline AnswerForm::Kind grammar_kind(std::string_view grammar) {
  return grammar.find("::=") != std::string_view::npos ? AnswerForm::Kind::kGbnf
                                                       : AnswerForm::Kind::kLark;
}

}  // namespace kvik
