#include "constrain/schema/shape_maker.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvik::constrain {

std::unexpected<Error> ShapeMaker::unsupported(const Json& schema, std::string_view keyword,
                                               std::string_view why) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}/{}: {}", document_.path_of(schema), keyword, why));
}

std::unexpected<Error> ShapeMaker::invalid(const Json& schema, std::string_view keyword,
                                           std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}/{}: expected {}", document_.path_of(schema), keyword, expected));
}

std::unexpected<Error> ShapeMaker::too_large() {
  return fail(ErrorCode::kInvalidArgument, "the schema is too large");
}

bool ShapeMaker::may_ignore(const Error& error) {
  if (options_.strictness == SchemaOptions::Strictness::kStrict) return false;
  if (error.code != ErrorCode::kUnsupported) return false;
  left_out_.push_back(error.message);
  return true;
}

Literal ShapeMaker::number_of(const Json& json, Meaning meaning) {
  auto& numbers = numbers_[static_cast<size_t>(meaning)];
  const auto [found, is_new] = numbers.try_emplace(&json, static_cast<uint32_t>(meant_.size()));
  if (is_new) meant_.push_back({&json, meaning});
  return found->second * 2;
}

Literal ShapeMaker::never() { return number_of(document_.root(), Meaning::kNever); }

Shape ShapeMaker::everything() {
  Shape shape;
  shape.string = shape.number = shape.names = pool_.any_text();
  shape.number_style.written = pool_.any_text();
  return shape;
}

Shape ShapeMaker::only(uint8_t types) {
  Shape shape = everything();
  shape.types = types;
  return shape;
}

Result<Shapes> ShapeMaker::shapes_of(const Conjunction& conjunction) {
  Shapes shapes = {everything()};
  for (const Literal literal : conjunction) {
    TRY_ASSIGN(const Shapes further, shapes_of(literal));
    TRY_ASSIGN(shapes, join(shapes, further));
  }
  return shapes;
}

Result<Shapes> ShapeMaker::shapes_of(Literal literal) {
  if (const auto found = known_.find(literal); found != known_.end()) return found->second;
  const auto [json, meaning] = meant_[literal / 2];
  const bool negative = (literal & 1) != 0;
  if (meaning == Meaning::kNever) return negative ? Shapes{everything()} : Shapes{};
  Progress& progress = progress_[literal];
  if (progress == Progress::kOpen) {
    return unsupported(*json, "$ref",
                       "the schema refers to itself without descending into the value");
  }
  if (depth_ >= kMaxChain) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: more than {} schemas refer to each other in a row",
                            document_.path_of(*json), kMaxChain));
  }
  progress = Progress::kOpen;
  pool_.spend(kStepsPerShape);
  if (pool_.exhausted()) return too_large();
  Result<Shapes> made = Shapes{};
  ++depth_;
  if (meaning == Meaning::kConstant) {
    made = negative ? not_constant(*json) : constant(*json);
  } else {
    made = negative ? make_negation(*json) : make_shapes(*json);
  }
  --depth_;
  progress_[literal] = Progress::kNew;
  if (!made) return made;
  progress_[literal] = Progress::kDone;
  known_[literal] = *made;
  return made;
}

Result<const Json*> ShapeMaker::reference(const Json& schema) {
  if (const Json* ref = schema.find("$ref")) {
    if (!ref->is(Json::Kind::kString)) return invalid(schema, "$ref", "a string");
    return document_.resolve(schema, ref->text());
  }
  if (const Json* ref = schema.find("$dynamicRef"); ref && document_.draft() == Draft::k2020) {
    if (!ref->is(Json::Kind::kString)) return invalid(schema, "$dynamicRef", "a string");
    return document_.resolve_dynamic(schema, ref->text());
  }
  if (const Json* ref = schema.find("$recursiveRef"); ref && document_.draft() == Draft::k2019) {
    if (document_.has_recursive_anchor()) {
      return unsupported(schema, "$recursiveRef", "its target depends on the path of evaluation");
    }
    return document_.resolve(schema, "#");
  }
  return nullptr;
}

Result<Shapes> ShapeMaker::make_shapes(const Json& schema) {
  if (schema.is(Json::Kind::kTrue)) return Shapes{everything()};
  if (schema.is(Json::Kind::kFalse)) return Shapes{};
  if (!schema.is(Json::Kind::kObject)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: expected a schema: an object, true or false", document_.path_of(schema)));
  }
  const bool ref_alone = document_.draft() <= Draft::k7 && schema.find("$ref") != nullptr;
  if (ref_alone) {
    TRY_ASSIGN(const Json* target, reference(schema));
    return shapes_of(of_schema(*target));
  }
  TRY_ASSIGN(Shapes shapes, own_shapes(schema));
  TRY_ASSIGN(shapes, join_applicators(schema, std::move(shapes)));
  TRY(apply_unevaluated(schema, shapes));
  mention_required(shapes);
  return shapes;
}

Result<Shapes> ShapeMaker::join_applicators(const Json& schema, Shapes shapes) {
  TRY_ASSIGN(const Json* target, reference(schema));
  if (target) {
    TRY_ASSIGN(const Shapes further, shapes_of(of_schema(*target)));
    TRY_ASSIGN(shapes, join(shapes, further));
  }
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    const Json* list = schema.find(keyword);
    if (!list) continue;
    if (!list->is(Json::Kind::kArray) || list->list().empty()) {
      return invalid(schema, keyword, "an array of schemas");
    }
    if (keyword == "allOf") {
      for (const Json& part : list->list()) {
        TRY_ASSIGN(const Shapes further, shapes_of(of_schema(part)));
        TRY_ASSIGN(shapes, join(shapes, further));
      }
      continue;
    }
    TRY_ASSIGN(const Shapes further, keyword == "anyOf" ? any_of(*list) : one_of(*list));
    TRY_ASSIGN(shapes, join(shapes, further));
  }
  if (const Json* other = schema.find("not")) {
    TRY_ASSIGN(const Shapes further, shapes_of(negated(of_schema(*other))));
    TRY_ASSIGN(shapes, join(shapes, further));
  }
  if (schema.find("if") && document_.draft() >= Draft::k7) {
    TRY_ASSIGN(const Shapes further, if_then_else(schema));
    TRY_ASSIGN(shapes, join(shapes, further));
  }
  return apply_dependencies(schema, std::move(shapes));
}

Result<Shapes> ShapeMaker::any_of(const Json& list) {
  Shapes all;
  if (!document_.mentions_unevaluated()) {
    for (const Json& part : list.list()) {
      TRY_ASSIGN(Shapes further, shapes_of(of_schema(part)));
      std::ranges::move(further, std::back_inserter(all));
    }
    return all;
  }
  // Which names are evaluated depends on which of the schemas match, so each subset of them is a
  // separate case.
  constexpr size_t kMaxTogether = 6;
  if (list.list().size() > kMaxTogether) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: beside unevaluated… expected at most {} schemas, found {}",
                            document_.path_of(list), kMaxTogether, list.list().size()));
  }
  for (uint32_t chosen = 1; chosen < 1u << list.list().size(); ++chosen) {
    Conjunction together;
    for (size_t i = 0; i < list.list().size(); ++i) {
      if ((chosen >> i & 1) != 0) together.push_back(of_schema(list.list()[i]));
    }
    TRY_ASSIGN(Shapes further, shapes_of(together));
    std::ranges::move(further, std::back_inserter(all));
  }
  return all;
}

// Returns the values that match exactly one of the schemas. "not the other" is added only if both
// could match.
Result<Shapes> ShapeMaker::one_of(const Json& list) {
  Shapes all;
  for (const Json& part : list.list()) {
    TRY_ASSIGN(Shapes remaining, shapes_of(of_schema(part)));
    for (const Json& other : list.list()) {
      if (&other == &part || remaining.empty()) continue;
      TRY_ASSIGN(const Shapes others, shapes_of(of_schema(other)));
      TRY_ASSIGN(const Shapes both, join(remaining, others));
      const auto is_void = [&](const Shape& shape) { return is_empty(shape, 0); };
      if (std::ranges::all_of(both, is_void)) continue;
      TRY_ASSIGN(const Shapes rest, shapes_of(negated(of_schema(other))));
      TRY_ASSIGN(remaining, join(remaining, rest));
      std::erase_if(remaining, is_void);
    }
    mention_required(remaining);
    std::ranges::move(remaining, std::back_inserter(all));
    if (all.size() > kMaxShapes) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: the schemas overlap in too many ways", document_.path_of(list)));
    }
  }
  return all;
}

Result<Shapes> ShapeMaker::if_then_else(const Json& schema) {
  const Json* then = schema.find("then");
  const Json* other = schema.find("else");
  if (!then && !other && !document_.mentions_unevaluated()) return Shapes{everything()};
  const Literal condition = of_schema(*schema.find("if"));
  TRY_ASSIGN(Shapes all,
             shapes_of(then ? Conjunction{condition, of_schema(*then)} : Conjunction{condition}));
  TRY_ASSIGN(Shapes otherwise, shapes_of(other ? Conjunction{negated(condition), of_schema(*other)}
                                               : Conjunction{negated(condition)}));
  std::ranges::move(otherwise, std::back_inserter(all));
  return all;
}

Result<Shapes> ShapeMaker::apply_dependencies(const Json& schema, Shapes shapes) {
  const auto apply = [&](std::string_view keyword) -> Result<void> {
    const Json* all = schema.find(keyword);
    if (!all) return {};
    if (!all->is(Json::Kind::kObject)) return invalid(schema, keyword, "an object");
    for (const auto& [name, what] : all->fields()) {
      if (what.is(Json::Kind::kArray) || what.is(Json::Kind::kString)) {
        std::set<std::string> needed;
        if (what.is(Json::Kind::kString)) needed.insert(what.text());
        for (const Json& item : what.list()) needed.insert(item.text());
        for (Shape& shape : shapes) {
          shape.needs[name].insert(needed.begin(), needed.end());
          shape.evaluated.mentioned.insert(needed.begin(), needed.end());
        }
        continue;
      }
      // Either the object lacks the property, or it has it and must match the schema.
      Shape without = everything();
      without.object.emplace_back().named[name] = {never()};
      Shape with = only(Shape::kObject);
      with.required.insert(name);
      TRY_ASSIGN(const Shapes further, shapes_of(of_schema(what)));
      TRY_ASSIGN(Shapes either, join({with}, further));
      either.push_back(std::move(without));
      TRY_ASSIGN(shapes, join(shapes, either));
    }
    return {};
  };
  TRY(apply("dependencies"));
  if (document_.draft() >= Draft::k2019) {
    TRY(apply("dependentRequired"));
    TRY(apply("dependentSchemas"));
  }
  return shapes;
}

Result<void> ShapeMaker::apply_unevaluated(const Json& schema, Shapes& shapes) {
  if (document_.draft() < Draft::k2019) return {};
  if (const Json* rest = schema.find("unevaluatedProperties")) {
    for (Shape& shape : shapes) {
      if (shape.evaluated.all_names) continue;
      ObjectRules& rules = shape.object.emplace_back();
      for (const std::string& name : shape.evaluated.names) rules.named[name] = {};
      for (const Regular names : shape.evaluated.patterns) rules.patterns.push_back({names, {}});
      rules.others = {of_schema(*rest)};
      shape.evaluated.all_names = true;
    }
  }
  if (const Json* rest = schema.find("unevaluatedItems")) {
    for (Shape& shape : shapes) {
      if (shape.evaluated.all_items) continue;
      if (!shape.contains.empty() && document_.draft() >= Draft::k2020) {
        return unsupported(schema, "unevaluatedItems",
                           "contains decides which items are evaluated");
      }
      ItemRules& rules = shape.items.emplace_back();
      rules.first.resize(shape.evaluated.n_items);
      rules.rest = {of_schema(*rest)};
      shape.evaluated.all_items = true;
    }
  }
  return {};
}

}  // namespace kvik::constrain
