#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/text_list.h"
#include "base/token_id.h"
#include "service/structured_output/grammar_rules.h"

namespace kvik {

// Style of the JSON in an answer.
struct JsonStyle {
  enum class Whitespace : uint8_t {
    kSpaced,    // one blank may follow each ':' and ','
    kCompact,   // none
    kFlexible,  // up to 64 blanks, tabs and line breaks wherever JSON allows them
  };
  // The set of texts that a schema accepts: the canonical serialization that a program would write,
  // or every text that the schema allows (constrain::SchemaOptions::Language).
  enum class Language : uint8_t { kCanonical, kFull };

  Whitespace whitespace = Whitespace::kSpaced;
  std::optional<Language> language = {};  // absent: the server's default

  friend bool operator==(const JsonStyle&, const JsonStyle&) = default;
};

// Return the value for the name that clients and flags use; nullopt for an unknown name.
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

// The structure that an answer must have, as the client specifies it. If a chat's answer begins
// with reasoning, the form applies to the text after the reasoning.
struct StructuredOutput {
  enum class Kind : uint8_t {
    kJsonObject,  // any object
    kJsonSchema,  // `text`: the schema, as JSON
    kRegex,       // `text`: a regular expression that matches the whole answer
    kChoice,      // `choices`: one of them
    kGbnf,        // `text`: a GBNF grammar, as in llama.cpp
    kLark,        // `text`: a Lark grammar, as in LLGuidance
    kRules,       // `rules`: tool calls, structural tags
  };
  // kRelaxed: schema keywords that cannot be enforced are ignored and reported
  // (Completion::relaxed).
  enum class Strictness : uint8_t { kStrict, kRelaxed };

  Kind kind = Kind::kJsonObject;
  std::string text = {};
  TextList choices = {};
  GrammarRules rules = {};
  Strictness strictness = Strictness::kStrict;
  JsonStyle style = {};
  // Special tokens that the form may use as their text, ascending. Other special tokens are not
  // allowed.
  std::vector<TokenId> marks = {};
  std::string param = "response_format";  // request field named in errors
  // For harmony. True: the form includes the header of its message, after "<|start|>assistant".
  // False: the form describes the content of the final message.
  bool includes_header = false;

  friend bool operator==(const StructuredOutput&, const StructuredOutput&) = default;
};

// Returns the dialect of a grammar: GBNF if it contains `::=`, otherwise Lark.
inline StructuredOutput::Kind grammar_kind(std::string_view grammar) {
  return grammar.find("::=") != std::string_view::npos ? StructuredOutput::Kind::kGbnf
                                                       : StructuredOutput::Kind::kLark;
}

}  // namespace kvik
