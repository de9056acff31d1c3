#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/text_list.h"
#include "base/token_id.h"
#include "service/forms/grammar_rules.h"

namespace kvik {

// Style of the JSON in an answer.
struct JsonStyle {
  enum class Whitespace : uint8_t {
    kSpaced,    // one blank may follow each ':' and ','
    kCompact,   // none
    kFlexible,  // up to 64 blanks, tabs and line ends wherever JSON allows them
  };
  // Language of a schema: the texts that a program would write, or every text that the schema
  // allows (constrain::SchemaOptions::Language).
  enum class Language : uint8_t { kCanonical, kFull };

  Whitespace whitespace = Whitespace::kSpaced;
  std::optional<Language> language = {};  // absent: the server's

  friend bool operator==(const JsonStyle&, const JsonStyle&) = default;
};

// By the names that clients and flags use; nullopt for others.
inline std::optional<JsonStyle::Whitespace> whitespace_named(std::string_view name) {
  if (name == "spaced") return JsonStyle::Whitespace::kSpaced;
  if (name == "compact") return JsonStyle::Whitespace::kCompact;
  if (name == "flexible") return JsonStyle::Whitespace::kFlexible;
  return {};
}
inline std::optional<JsonStyle::Language> schema_language_named(std::string_view name) {
  if (name == "canonical") return JsonStyle::Language::kCanonical;
  if (name == "full") return JsonStyle::Language::kFull;
  return {};
}

// The form that an answer must keep to, as a client says it. Where a chat's answer begins with a
// thought, the form is of what follows it.
struct AnswerForm {
  enum class Kind : uint8_t {
    kJsonObject,  // any object
    kJsonSchema,  // `text`: the schema, as JSON
    kRegex,       // `text`: an expression that the whole answer matches
    kChoice,      // `choices`: one of them
    kGbnf,        // `text`: a grammar of llama.cpp's dialect
    kLark,        // `text`: a grammar as LLGuidance takes it
    kRules,       // `rules`: tool calls
  };
  // kRelaxed: what of a schema cannot be kept is left out, and told (Completion::relaxed).
  enum class Strictness : uint8_t { kStrict, kRelaxed };

  Kind kind = Kind::kJsonObject;
  std::string text = {};
  TextList choices = {};
  GrammarRules rules = {};
  Strictness strictness = Strictness::kStrict;
  JsonStyle style = {};
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
