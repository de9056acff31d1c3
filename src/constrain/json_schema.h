#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

struct SchemaOptions {
  Limits limits;
  Whitespace whitespace;
  // "format" is kept where it is known, or is a remark only, as the standard has it by default.
  enum class Formats { kKept, kRemarks } formats = Formats::kKept;
  // What cannot be kept is an error, or left out and named in Relaxed::left_out.
  enum class Strictness { kStrict, kRelaxed } strictness = Strictness::kStrict;
  // Every text that the schema allows, or what a program would write of it, which is what a model
  // can write without going astray:
  // - an object with `properties` or `patternProperties` has no others, unless
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
  // Paths of the keywords that are not kept, each with its reason; empty where strict.
  std::vector<std::string> left_out;
};

// The JSON texts that a JSON Schema (drafts 4 to 2020-12) allows. Errors: kInvalidArgument where it
// is no schema or beyond the limits, kUnsupported with the path of the keyword that cannot be kept.
Result<SchemaGrammar> compile_json_schema(std::string_view schema,
                                          const SchemaOptions& options = {});

// The same as a part of another grammar, whose white space is the builder's.
struct SchemaNode {
  Node start;
  std::vector<std::string> left_out;
};
Result<SchemaNode> add_json_schema(Builder& builder, std::string_view schema,
                                   const SchemaOptions& options = {});

// Any JSON object.
Result<Grammar> compile_json_object(const SchemaOptions& options = {});

}  // namespace kvik::constrain
