#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// The options of compiling a JSON Schema.
struct SchemaOptions {
  Limits limits;
  Whitespace whitespace;
  // kKept: a known "format" restricts strings. kRemarks: "format" is only an annotation, which is
  // the standard's default.
  enum class Formats { kKept, kRemarks } formats = Formats::kKept;
  // kStrict: an unsupported keyword is an error. kRelaxed: it is ignored and listed in left_out.
  enum class Strictness { kStrict, kRelaxed } strictness = Strictness::kStrict;
  // kFull: every text that the schema allows. kCanonical: only the texts that a program would
  // write, so that a model cannot generate endless digits or properties:
  // - an object with `properties` or `patternProperties` has no other properties, unless
  //   `additionalProperties` or `unevaluatedProperties` allows them;
  // - properties come in the order of the schema, unlisted ones last; optional ones may be left
  //   out;
  // - integers have neither fraction nor exponent and are not minus zero; numbers have at most 17
  //   significant digits; constants are written as in the schema.
  enum class Language { kFull, kCanonical } language = Language::kFull;

  Numbers numbers() const {
    return language == Language::kCanonical ? Numbers::kBounded : Numbers::kAny;
  }
};

// A compiled schema.
struct SchemaGrammar {
  Grammar grammar;
  // paths of the ignored keywords, each with the reason; empty in strict mode
  std::vector<std::string> left_out;
};

// Compiles a JSON Schema (drafts 4 to 2020-12). Errors: kInvalidArgument if the text is not a
// schema or exceeds the limits; kUnsupported with the path of an unsupported keyword.
Result<SchemaGrammar> compile_json_schema(std::string_view schema,
                                          const SchemaOptions& options = {});

// A schema that was added to another grammar.
struct SchemaNode {
  Node start;
  std::vector<std::string> left_out;
};
// Adds a schema to another grammar, with the whitespace of its builder. Returns the errors of
// compile_json_schema().
Result<SchemaNode> add_json_schema(Builder& builder, std::string_view schema,
                                   const SchemaOptions& options = {});

// Returns the grammar of all JSON objects.
Result<Grammar> compile_json_object(const SchemaOptions& options = {});

}  // namespace kvik::constrain
