#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace kvik::grammar {

struct SchemaOptions {
  Limits limits;
  Whitespace whitespace;
  // "format" is kept where it is known, or is a remark only, as the standard has it by default.
  enum class Formats { kKept, kRemarks } formats = Formats::kKept;
  // What cannot be kept is an error, or left out and named in Relaxed::left_out.
  enum class Strictness { kStrict, kRelaxed } strictness = Strictness::kStrict;
};

struct SchemaGrammar {
  Grammar grammar;
  // Paths of the keywords that are not kept, each with its reason; empty where strict.
  std::vector<std::string> left_out;
};

// The JSON texts that a JSON Schema (drafts 4 to 2020-12) allows, properties in any order. Errors:
// kInvalidArgument where it is no schema or beyond the limits, kUnsupported with the path of the
// keyword that cannot be kept.
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

}  // namespace kvik::grammar
