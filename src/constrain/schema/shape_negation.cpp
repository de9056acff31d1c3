#include <fmt/format.h>

#include <algorithm>

#include "constrain/number_syntax.h"
#include "constrain/schema/shape_maker.h"

namespace kvik::constrain {

// Returns the values that violate a schema. A value does so if it violates one of its keywords, so
// the result is a union by keyword.
Result<Shapes> ShapeMaker::make_negation(const Json& schema) {
  if (schema.is(Json::Kind::kTrue)) return Shapes{};
  if (schema.is(Json::Kind::kFalse)) return Shapes{everything()};
  if (!schema.is(Json::Kind::kObject)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: expected a schema: an object, true or false", document_.path_of(schema)));
  }
  Shapes shapes;
  const bool ref_alone = document_.draft() <= Draft::k7 && schema.find("$ref") != nullptr;
  if (!ref_alone) {
    TRY(negate_scalars(schema, shapes));
    TRY(negate_objects(schema, shapes));
    TRY(negate_arrays(schema, shapes));
  }
  TRY(negate_applicators(schema, shapes));
  // A schema that does not match evaluates no properties or items.
  for (Shape& shape : shapes) shape.evaluated = {};
  std::erase_if(shapes, [&](Shape& shape) { return !clean(shape); });
  if (shapes.size() > kMaxShapes) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: its negation has too many cases", document_.path_of(schema)));
  }
  return shapes;
}

Shapes ShapeMaker::not_constant(const Json& value) {
  const Shape shape = constant(value).front();
  Shapes shapes = {only(Shape::kAll & static_cast<uint8_t>(~shape.types))};
  const auto add = [&]() -> Shape& {
    shapes.push_back(only(shape.types));
    return shapes.back();
  };
  const auto n_items = static_cast<uint32_t>(value.size());
  if (value.is(Json::Kind::kArray) || value.is(Json::Kind::kObject)) {
    const bool is_array = value.is(Json::Kind::kArray);
    if (n_items > 0 && is_array) add().max_items = n_items - 1;
    Shape& longer = add();
    (is_array ? longer.min_items : longer.min_properties) = n_items + 1;
  }
  switch (value.kind()) {
    case Json::Kind::kString:
      add().string = pool_.complement(shape.string);
      break;
    case Json::Kind::kNumber:
      add().number = pool_.complement(shape.number);
      break;
    case Json::Kind::kArray:
      for (uint32_t i = 0; i < n_items; ++i) {
        Shape& shape = add();
        shape.min_items = i + 1;
        ItemRules& rules = shape.items.emplace_back();
        rules.first.resize(i);
        rules.first.push_back({negated(number_of(value[i], Meaning::kConstant))});
      }
      break;
    case Json::Kind::kObject:
      for (const auto& [name, member] : value.fields()) {
        add().object.emplace_back().named[name] = {never()};
        Shape& shape = add();
        shape.required.insert(name);
        shape.object.emplace_back().named[name] = {negated(number_of(member, Meaning::kConstant))};
      }
      break;
    default:
      break;
  }
  return shapes;
}

Result<void> ShapeMaker::negate_scalars(const Json& schema, Shapes& shapes) {
  if (const Json* type = schema.find("type")) {
    Regular number{};
    TRY_ASSIGN(const uint8_t types, types_of(schema, *type, number));
    shapes.push_back(only(Shape::kAll & static_cast<uint8_t>(~types)));
    if ((types & Shape::kNumber) != 0 && number != pool_.any_text()) {
      shapes.push_back(only(Shape::kNumber));
      shapes.back().number = pool_.complement(number);
    }
  }
  const auto negate_values = [&](const std::vector<const Json*>& values) -> Result<void> {
    Shapes none = {everything()};
    for (const Json* value : values) {
      TRY_ASSIGN(none, join(none, not_constant(*value)));
    }
    std::ranges::move(none, std::back_inserter(shapes));
    return {};
  };
  if (const Json* values = schema.find("enum")) {
    std::vector<const Json*> all;
    for (const Json& value : values->list()) all.push_back(&value);
    TRY(negate_values(all));
  }
  if (const Json* value = schema.find("const"); value && document_.draft() >= Draft::k6) {
    TRY(negate_values({value}));
  }
  const auto add_number = [&](Regular numbers) {
    shapes.push_back(only(Shape::kNumber));
    shapes.back().number = pool_.intersection(decimal_syntax(pool_), pool_.complement(numbers));
  };
  for (const std::string_view keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    const Json* bound = schema.find(keyword);
    if (!bound || bound->is_bool()) continue;
    TRY_ASSIGN(const Regular numbers, number_bound(schema, keyword));
    add_number(numbers);
  }
  if (schema.find("multipleOf")) {
    TRY_ASSIGN(const Regular numbers, multiples(schema));
    add_number(numbers);
  }
  const auto add_string = [&](Regular texts) {
    shapes.push_back(only(Shape::kString));
    shapes.back().string = pool_.complement(texts);
  };
  TRY_ASSIGN(const auto min, count(schema, "minLength"));
  TRY_ASSIGN(const auto max, count(schema, "maxLength"));
  if (min) add_string(pool_.repeat(pool_.any_character(), *min, RegularPool::kUnbounded));
  if (max) add_string(pool_.repeat(pool_.any_character(), 0, *max));
  TRY_ASSIGN(const auto texts, pattern(schema));
  if (texts) add_string(*texts);
  TRY_ASSIGN(const auto form, format(schema));
  if (form) add_string(*form);
  return {};
}

Result<void> ShapeMaker::negate_objects(const Json& schema, Shapes& shapes) {
  const auto add = [&]() -> Shape& {
    shapes.push_back(only(Shape::kObject));
    return shapes.back();
  };
  TRY_ASSIGN(const auto required, strings(schema, "required"));
  const Json* properties = schema.find("properties");
  if (properties && !properties->is(Json::Kind::kObject)) {
    return invalid(schema, "properties", "an object");
  }
  for (const std::string& name : required) {
    // The property may be absent or, if the schema has a rule for it, have a wrong value.
    const Json* property = properties ? properties->find(name) : nullptr;
    add().object.emplace_back().named[name] = {property ? negated(of_schema(*property)) : never()};
  }
  TRY_ASSIGN(const auto min, count(schema, "minProperties"));
  TRY_ASSIGN(const auto max, count(schema, "maxProperties"));
  if (min && *min > 0) add().max_properties = *min - 1;
  if (max) add().min_properties = *max + 1;
  const Json::Fields no_fields;
  const Json::Fields& named = properties ? properties->fields() : no_fields;
  for (const auto& [name, property] : named) {
    if (property.is(Json::Kind::kTrue)) continue;
    if (std::ranges::count(required, name) > 0) continue;
    Shape& shape = add();
    shape.required.insert(name);
    shape.object.emplace_back().named[name] = {negated(of_schema(property))};
  }
  std::vector<Regular> known;
  const Json* patterns = schema.find("patternProperties");
  for (const auto& [pattern, property] : patterns ? patterns->fields() : no_fields) {
    TRY_ASSIGN(const Regular names, pattern_text(schema, "patternProperties", pattern));
    known.push_back(names);
    if (property.is(Json::Kind::kTrue)) continue;
    add().some.push_back({names, {negated(of_schema(property))}});
  }
  if (const Json* names = schema.find("propertyNames");
      names && document_.draft() >= Draft::k6 && !names->is(Json::Kind::kTrue)) {
    TRY_ASSIGN(const Regular allowed, names_of(*names));
    add().some.push_back({pool_.complement(allowed), {}});
  }
  const Json* others = schema.find("additionalProperties");
  if (others && !others->is(Json::Kind::kTrue)) {
    std::vector<std::u32string> names;
    for (const auto& [name, property] : named) {
      names.push_back(to_characters(name));
    }
    known.push_back(pool_.one_of(std::move(names)));
    add().some.push_back({pool_.complement(pool_.choice(known)), {negated(of_schema(*others))}});
  }
  if (const Json* rest = schema.find("unevaluatedProperties");
      rest && document_.draft() >= Draft::k2019 && !rest->is(Json::Kind::kTrue)) {
    return unsupported(schema, "unevaluatedProperties", "it is within a negation");
  }
  return {};
}

Result<void> ShapeMaker::negate_arrays(const Json& schema, Shapes& shapes) {
  const auto add = [&]() -> Shape& {
    shapes.push_back(only(Shape::kArray));
    return shapes.back();
  };
  TRY_ASSIGN(const auto min, count(schema, "minItems"));
  TRY_ASSIGN(const auto max, count(schema, "maxItems"));
  if (min && *min > 0) add().max_items = *min - 1;
  if (max) add().min_items = *max + 1;
  Shape positive = everything();
  TRY(apply_arrays(schema, positive));
  for (const auto& [first, rest] : positive.items) {
    for (size_t i = 0; i < first.size(); ++i) {
      Shape& shape = add();
      shape.min_items = static_cast<uint32_t>(i) + 1;
      ItemRules& rules = shape.items.emplace_back();
      rules.first.resize(i);
      rules.first.push_back({negated(first[i].front())});
    }
    if (rest.empty() || meant_[rest.front() / 2].json->is(Json::Kind::kTrue)) continue;
    if (meant_[rest.front() / 2].json->is(Json::Kind::kFalse)) {
      add().min_items = static_cast<uint32_t>(first.size()) + 1;
    } else {
      add().contains.push_back(
          {negated(rest.front()), 1, RegularPool::kUnbounded, static_cast<uint32_t>(first.size())});
    }
  }
  for (const auto& [literal, least, most, from] : positive.contains) {
    if (least > 1) {
      add().contains.push_back({literal, 0, least - 1});
    } else if (least == 1) {
      add().items.emplace_back().rest = {negated(literal)};
    }
    if (most != RegularPool::kUnbounded) {
      add().contains.push_back({literal, most + 1});
    }
  }
  if (positive.unique) {
    Shape& shape = add();
    shape.repeated = true;
    shape.min_items = 2;
  }
  if (const Json* rest = schema.find("unevaluatedItems");
      rest && document_.draft() >= Draft::k2019 && !rest->is(Json::Kind::kTrue)) {
    return unsupported(schema, "unevaluatedItems", "it is within a negation");
  }
  return {};
}

Result<void> ShapeMaker::negate_applicators(const Json& schema, Shapes& shapes) {
  const auto add = [&](const Conjunction& conjunction) -> Result<void> {
    TRY_ASSIGN(Shapes further, shapes_of(conjunction));
    std::ranges::move(further, std::back_inserter(shapes));
    return {};
  };
  TRY_ASSIGN(const Json* target, reference(schema));
  if (target) TRY(add({negated(of_schema(*target))}));
  if (document_.draft() <= Draft::k7 && schema.find("$ref")) return {};
  const auto parts_of = [&](std::string_view keyword) {
    Conjunction parts;
    const Json* list = schema.find(keyword);
    for (size_t i = 0; list && i < list->size(); ++i) {
      parts.push_back(of_schema((*list)[i]));
    }
    return parts;
  };
  for (const Literal part : parts_of("allOf")) TRY(add({negated(part)}));
  const auto none_of = [](Conjunction parts) {
    for (Literal& part : parts) part = negated(part);
    return parts;
  };
  if (const Conjunction parts = parts_of("anyOf"); !parts.empty()) TRY(add(none_of(parts)));
  if (const Conjunction parts = parts_of("oneOf"); !parts.empty()) {
    TRY(add(none_of(parts)));
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t j = i + 1; j < parts.size(); ++j) TRY(add({parts[i], parts[j]}));
    }
  }
  if (const Json* other = schema.find("not")) TRY(add({of_schema(*other)}));
  if (const Json* condition = schema.find("if"); condition && document_.draft() >= Draft::k7) {
    const Literal literal = of_schema(*condition);
    if (const Json* then = schema.find("then")) TRY(add({literal, negated(of_schema(*then))}));
    if (const Json* other = schema.find("else")) {
      TRY(add({negated(literal), negated(of_schema(*other))}));
    }
  }
  for (const std::string_view keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    const Json* all = schema.find(keyword);
    if (!all || (keyword != "dependencies" && document_.draft() < Draft::k2019)) continue;
    for (const auto& [name, what] : all->fields()) {
      Shape with = only(Shape::kObject);
      with.required.insert(name);
      if (what.is(Json::Kind::kArray)) {
        for (const Json& needed : what.list()) {
          shapes.push_back(with);
          shapes.back().object.emplace_back().named[needed.text()] = {never()};
        }
        continue;
      }
      TRY_ASSIGN(const Shapes further, shapes_of(negated(of_schema(what))));
      TRY_ASSIGN(Shapes both, join({with}, further));
      std::ranges::move(both, std::back_inserter(shapes));
    }
  }
  return {};
}

}  // namespace kvik::constrain
