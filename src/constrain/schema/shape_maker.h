#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constrain/json_schema.h"
#include "constrain/schema/document.h"
#include "constrain/schema/shape.h"

namespace kvik::constrain {

// Converts schemas to unions of shapes, so that several schemas can be joined type by type. The
// schemas of properties and items are converted on demand, so that recursion ends.
class ShapeMaker {
 public:
  ShapeMaker(const SchemaDocument& document, RegularPool& pool, const SchemaOptions& options)
      : document_(document), pool_(pool), options_(options) {}

  Literal of_schema(const Json& schema) { return number_of(schema, Meaning::kSchema); }
  // Returns the shapes of exactly the values that match all schemas of the conjunction.
  Result<Shapes> shapes_of(const Conjunction& conjunction);

  Shape everything();
  Literal never();

  // Allows closed objects (see SchemaOptions::Language) to have unlisted required names, if each
  // object shape of the union requires some because of a negation. Otherwise the union has an
  // object without them.
  void mention_required(Shapes& shapes);

  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  enum class Meaning : uint8_t { kSchema, kConstant, kNever };
  struct Meant {
    const Json* json;
    Meaning meaning;
  };

  Literal number_of(const Json& json, Meaning meaning);
  Result<Shapes> shapes_of(Literal literal);
  Result<Shapes> make_shapes(const Json& schema);
  Result<Shapes> make_negation(const Json& schema);
  Shapes constant(const Json& value);
  Shapes not_constant(const Json& value);

  // Defined in shape_keywords.cpp: keywords of the schema itself.
  Result<Shapes> own_shapes(const Json& schema);
  Result<void> apply_type(const Json& schema, Shape& shape);
  Result<uint8_t> types_of(const Json& schema, const Json& type, Regular& number);
  Result<void> apply_numbers(const Json& schema, Shape& shape);
  Result<void> apply_strings(const Json& schema, Shape& shape);
  Result<void> apply_objects(const Json& schema, Shape& shape);
  Result<void> apply_arrays(const Json& schema, Shape& shape);
  Result<void> apply_contains(const Json& schema, Shape& shape);
  Result<Regular> number_bound(const Json& schema, std::string_view keyword);
  Result<Regular> multiples(const Json& schema);
  Result<std::optional<Regular>> pattern(const Json& schema);
  Result<std::optional<Regular>> format(const Json& schema);
  Result<Regular> names_of(const Json& schema);
  Result<std::optional<uint32_t>> count(const Json& schema, std::string_view keyword);
  Result<std::vector<std::string>> strings(const Json& schema, std::string_view keyword);
  Result<Regular> pattern_text(const Json& schema, std::string_view keyword, std::string_view text);

  // Defined in shape_maker.cpp: keywords that combine schemas.
  Result<Shapes> join_applicators(const Json& schema, Shapes shapes);
  Result<Shapes> any_of(const Json& list);
  Result<Shapes> one_of(const Json& list);
  Result<Shapes> if_then_else(const Json& schema);
  Result<Shapes> apply_dependencies(const Json& schema, Shapes shapes);
  Result<void> apply_unevaluated(const Json& schema, Shapes& shapes);
  Result<const Json*> reference(const Json& schema);

  // Defined in shape_join.cpp.
  Result<Shapes> join(const Shapes& a, const Shapes& b);
  std::optional<Shape> join(const Shape& a, const Shape& b);
  bool clean(Shape& shape);
  Conjunction rules_for(const Shape& shape, const std::string& name);
  // Return true only if it is certain that no value matches.
  bool is_empty(const Conjunction& conjunction, int depth);
  bool is_empty(const Shape& shape, int depth);
  bool may_have(const Shape& shape, const SomeProperty& some, int depth);

  // Defined in shape_negation.cpp.
  Result<void> negate_scalars(const Json& schema, Shapes& shapes);
  Result<void> negate_objects(const Json& schema, Shapes& shapes);
  Result<void> negate_arrays(const Json& schema, Shapes& shapes);
  Result<void> negate_applicators(const Json& schema, Shapes& shapes);
  Shape only(uint8_t types);

  std::unexpected<Error> unsupported(const Json& schema, std::string_view keyword,
                                     std::string_view why);
  std::unexpected<Error> invalid(const Json& schema, std::string_view keyword,
                                 std::string_view expected);
  static std::unexpected<Error> too_large();
  // Returns true, and records the error, if it is about a keyword that relaxed mode ignores.
  bool may_ignore(const Error& error);

  static constexpr size_t kMaxShapes = 400;
  // Steps of work (RegularPool::spend()) for the memory of a shape.
  static constexpr uint64_t kStepsPerShape = 16;
  static constexpr uint32_t kMaxChain = 400;  // 3,000 overflowed a stack of 8 MiB

  const SchemaDocument& document_;
  RegularPool& pool_;
  const SchemaOptions& options_;
  std::vector<Meant> meant_;
  std::unordered_map<const Json*, uint32_t> numbers_[3];
  enum class Progress : uint8_t { kNew, kOpen, kDone };
  std::unordered_map<Literal, Progress> progress_;
  std::unordered_map<Literal, Shapes> known_;
  std::map<Conjunction, bool> empty_;
  std::vector<std::string> left_out_;
  uint32_t depth_ = 0;  // number of schemas being converted, each required by the previous one
  bool is_pruning_ = false;
};

}  // namespace kvik::constrain
