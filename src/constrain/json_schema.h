#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

struct SchemaOptions {
  Limits limits;
  Whitespace whitespace;
  // "format" is obeyed if it is known, or only an annotation, the standard's default.
  enum class Formats { kKept, kRemarks } formats = Formats::kKept;
  // An unsupported keyword is an error, or ignored and listed in Relaxed::left_out.
  enum class Strictness { kStrict, kRelaxed } strictness = Strictness::kStrict;
  // Every text that the schema allows, or the texts that a program would write, which a model can
  // write without running away:
  //   `additionalProperties` or `unevaluatedProperties` says so;
  // - properties come in the order of the schema, others after them; optional ones may be left out;
  // - integers have neither fraction nor exponent nor minus zero, numbers have at most 17
  //   significant digits; constants are written as the schema writes them.
  enum class Language { kFull, kCanonical } language = Language::kFull;

  Numbers numbers() const {
    return language == Language::kCanonical ? Numbers::kBounded : Numbers::kAny;
  }
};

struct SchemaGrammar {
  Grammar grammar;
  // Paths of the ignored keywords, each with its reason; empty if strict.
  std::vector<std::string> left_out;
};

// Compiles a JSON Schema (drafts 4 to 2020-12). Errors: kInvalidArgument if it is not a schema or
// exceeds the limits, kUnsupported with the path of an unsupported keyword.
Result<SchemaGrammar> compile_json_schema(std::string_view schema,
                                          const SchemaOptions& options = {});

// The same as a part of another grammar, with the builder's whitespace.
struct SchemaNode {
  Node start;
  std::vector<std::string> left_out;
};
Result<SchemaNode> add_json_schema(Builder& builder, std::string_view schema,
                                   const SchemaOptions& options = {});

// Any JSON object.
Result<Grammar> compile_json_object(const SchemaOptions& options = {});

}  // namespace kvik::constrain
