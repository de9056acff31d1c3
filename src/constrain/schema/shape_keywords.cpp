#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "constrain/number_syntax.h"
#include "constrain/pattern/pattern.h"
#include "constrain/schema/formats.h"
#include "constrain/schema/shape_maker.h"

namespace kvik::constrain {
namespace {

constexpr uint32_t kLess = DecimalComparison::kLess, kEqual = DecimalComparison::kEqual,
                   kGreater = DecimalComparison::kGreater;

struct TypeName {
  std::string_view name;
  uint8_t types;
};
constexpr std::array kTypeNames = std::to_array<TypeName>({
    {"null", Shape::kNull},
    {"boolean", Shape::kFalse | Shape::kTrue},
    {"number", Shape::kNumber},
    {"string", Shape::kString},
    {"array", Shape::kArray},
    {"object", Shape::kObject},
});

}  // namespace

Result<std::optional<uint32_t>> ShapeMaker::count(const Json& schema, std::string_view keyword) {
  const Json* found = schema.find(keyword);
  if (!found) return std::optional<uint32_t>();
  const auto number =
      found->is(Json::Kind::kNumber) ? Decimal::parse(found->number_text()) : std::nullopt;
  if (!number || number->negative || !number->is_integer()) {
    return invalid(schema, keyword, "a number of zero or more, without a fraction");
  }
  uint32_t value = 0;
  const std::string& digits = number->whole;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Larger numbers are replaced by this one, which is far more than an answer can contain.
  constexpr uint32_t kMost = 1'000'000'000;
  if (error != std::errc() || value > kMost) value = kMost;
  return std::optional(value);
}

Result<std::vector<std::string>> ShapeMaker::strings(const Json& schema, std::string_view keyword) {
  std::vector<std::string> all;
  const Json* found = schema.find(keyword);
  if (!found) return all;
  // "required": true of draft 3 has no meaning in later drafts.
  if (keyword == "required" && found->is_bool()) return all;
  if (!found->is(Json::Kind::kArray)) return invalid(schema, keyword, "an array of strings");
  for (const Json& item : found->list()) {
    if (!item.is(Json::Kind::kString)) return invalid(schema, keyword, "an array of strings");
    all.push_back(item.text());
  }
  return all;
}

Result<uint8_t> ShapeMaker::types_of(const Json& schema, const Json& type, Regular& number) {
  uint8_t types = 0;
  bool integers = false;
  const auto add = [&](const Json& name) -> Result<void> {
    const auto found = std::ranges::find(kTypeNames, name.text(), &TypeName::name);
    if (name.is(Json::Kind::kString) && name.text() == "integer") {
      integers = true;
      return {};
    }
    if (!name.is(Json::Kind::kString) || found == kTypeNames.end()) {
      return invalid(schema, "type",
                     "null, boolean, integer, number, string, array, object or several");
    }
    types |= found->types;
    return {};
  };
  if (type.is(Json::Kind::kArray)) {
    for (const Json& name : type.list()) TRY(add(name));
  } else {
    TRY(add(type));
  }
  number = pool_.any_text();
  if (integers && (types & Shape::kNumber) == 0) {
    types |= Shape::kNumber;
    number = integer_syntax(pool_);
  }
  return types;
}

Result<void> ShapeMaker::apply_type(const Json& schema, Shape& shape) {
  const Json* type = schema.find("type");
  if (!type) return {};
  Regular number{};
  TRY_ASSIGN(shape.types, types_of(schema, *type, number));
  shape.number = pool_.intersection(shape.number, number);
  shape.number_style.are_integers |= number != pool_.any_text();
  return {};
}

// Returns the numbers within one bound. In draft 4 the exclusive bounds are flags.
Result<Regular> ShapeMaker::number_bound(const Json& schema, std::string_view keyword) {
  const Json& bound = *schema.find(keyword);
  const auto number =
      bound.is(Json::Kind::kNumber) ? Decimal::parse(bound.number_text()) : std::nullopt;
  if (!number) return invalid(schema, keyword, "a number of up to 1,000 digits");
  if (keyword == "exclusiveMinimum") return pool_.compared(*number, kGreater);
  if (keyword == "exclusiveMaximum") return pool_.compared(*number, kLess);
  const bool is_min = keyword == "minimum";
  const Json* exclusive = schema.find(is_min ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool strictly = exclusive && exclusive->is(Json::Kind::kTrue);
  return pool_.compared(*number, (is_min ? kGreater : kLess) | (strictly ? 0 : kEqual));
}

Result<Regular> ShapeMaker::multiples(const Json& schema) {
  const Json& divisor = *schema.find("multipleOf");
  const auto number =
      divisor.is(Json::Kind::kNumber) ? Decimal::parse(divisor.number_text()) : std::nullopt;
  if (!number || number->negative || number->is_zero()) {
    return invalid(schema, "multipleOf", "a number above zero");
  }
  const auto division = DecimalDivision::by(*number);
  if (!division) {
    return unsupported(schema, "multipleOf", "only up to 4,294,967,295 with up to 18 decimals");
  }
  return pool_.divisible(*division);
}

Result<void> ShapeMaker::apply_numbers(const Json& schema, Shape& shape) {
  for (const std::string_view keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    const Json* bound = schema.find(keyword);
    if (!bound || bound->is_bool()) continue;
    TRY_ASSIGN(const Regular numbers, number_bound(schema, keyword));
    shape.number = pool_.intersection(shape.number, numbers);
  }
  if (schema.find("multipleOf")) {
    TRY_ASSIGN(const Regular numbers, multiples(schema));
    shape.number = pool_.intersection(shape.number, numbers);
    constexpr uint64_t kWideDivisor = 1000;
    const auto divisor = Decimal::parse(schema.find("multipleOf")->number_text());
    shape.number_style.are_integers |= divisor->is_integer();
    shape.number_style.has_wide_divisor |= DecimalDivision::by(*divisor)->divisor > kWideDivisor;
  }
  return {};
}

Result<Regular> ShapeMaker::pattern_text(const Json& schema, std::string_view keyword,
                                         std::string_view text) {
  auto made = parse_pattern(pool_, text, {PatternOptions::Extent::kSearch});
  if (made) return *made;
  return fail(made.error().code,
              fmt::format("{}/{}: {}", document_.path_of(schema), keyword, made.error().message));
}

Result<std::optional<Regular>> ShapeMaker::pattern(const Json& schema) {
  const Json* found = schema.find("pattern");
  if (!found) return std::optional<Regular>();
  if (!found->is(Json::Kind::kString)) return invalid(schema, "pattern", "a string");
  TRY_ASSIGN(const Regular texts, pattern_text(schema, "pattern", found->text()));
  return std::optional(texts);
}

Result<std::optional<Regular>> ShapeMaker::format(const Json& schema) {
  const Json* found = schema.find("format");
  if (!found || !found->is(Json::Kind::kString)) return std::optional<Regular>();
  if (options_.formats == SchemaOptions::Formats::kRemarks) return std::optional<Regular>();
  return format_texts(pool_, found->text());
}

Result<void> ShapeMaker::apply_strings(const Json& schema, Shape& shape) {
  TRY_ASSIGN(const auto min, count(schema, "minLength"));
  TRY_ASSIGN(const auto max, count(schema, "maxLength"));
  if (min || max) {
    const Regular texts =
        pool_.repeat(pool_.any_character(), min.value_or(0), max.value_or(RegularPool::kUnbounded));
    shape.string = pool_.intersection(shape.string, texts);
  }
  auto texts = pattern(schema);
  if (!texts && !may_ignore(texts.error())) return std::unexpected(texts.error());
  if (texts && *texts) shape.string = pool_.intersection(shape.string, **texts);
  TRY_ASSIGN(const auto form, format(schema));
  if (form) shape.string = pool_.intersection(shape.string, *form);
  return {};
}

// Returns the property names that match a schema: the string part of its shapes.
Result<Regular> ShapeMaker::names_of(const Json& schema) {
  TRY_ASSIGN(const Shapes shapes, shapes_of(of_schema(schema)));
  std::vector<Regular> names;
  for (const Shape& shape : shapes) {
    if ((shape.types & Shape::kString) != 0) names.push_back(shape.string);
  }
  return pool_.choice(names);
}

Result<void> ShapeMaker::apply_objects(const Json& schema, Shape& shape) {
  TRY_ASSIGN(const auto required, strings(schema, "required"));
  shape.required.insert(required.begin(), required.end());
  shape.evaluated.mentioned = shape.required;
  TRY_ASSIGN(const auto min, count(schema, "minProperties"));
  TRY_ASSIGN(const auto max, count(schema, "maxProperties"));
  shape.min_properties = min.value_or(0);
  shape.max_properties = max.value_or(RegularPool::kUnbounded);
  ObjectRules rules;
  const Json* properties = schema.find("properties");
  const Json* patterns = schema.find("patternProperties");
  const Json* others = schema.find("additionalProperties");
  if (properties) {
    if (!properties->is(Json::Kind::kObject)) return invalid(schema, "properties", "an object");
    for (const auto& [name, property] : properties->fields()) {
      rules.named[name] = {of_schema(property)};
      shape.evaluated.names.insert(name);
      shape.order.push_back(name);
    }
  }
  if (patterns) {
    if (!patterns->is(Json::Kind::kObject)) {
      return invalid(schema, "patternProperties", "an object");
    }
    for (const auto& [pattern, property] : patterns->fields()) {
      TRY_ASSIGN(const Regular names, pattern_text(schema, "patternProperties", pattern));
      rules.patterns.push_back({names, {of_schema(property)}});
      shape.evaluated.patterns.push_back(names);
    }
  }
  if (others) {
    rules.others = {of_schema(*others)};
    shape.evaluated.all_names = true;
  }
  shape.evaluated.lists_names = properties || patterns;
  if (properties || patterns || others) shape.object.push_back(std::move(rules));
  if (const Json* names = schema.find("propertyNames"); names && document_.draft() >= Draft::k6) {
    TRY_ASSIGN(shape.names, names_of(*names));
  }
  return {};
}

Result<void> ShapeMaker::apply_arrays(const Json& schema, Shape& shape) {
  TRY_ASSIGN(const auto min, count(schema, "minItems"));
  TRY_ASSIGN(const auto max, count(schema, "maxItems"));
  shape.min_items = min.value_or(0);
  shape.max_items = max.value_or(RegularPool::kUnbounded);
  if (const Json* unique = schema.find("uniqueItems")) {
    shape.unique = unique->is(Json::Kind::kTrue);
  }
  const Json* items = schema.find("items");
  const Json* first = schema.find("prefixItems");
  if (document_.draft() < Draft::k2020) first = nullptr;
  const Json* rest = items;
  // An array under "items" is the predecessor of prefixItems. It is accepted in later drafts too.
  if (items && items->is(Json::Kind::kArray)) {
    first = items;
    rest = schema.find("additionalItems");
  }
  if (first && !first->is(Json::Kind::kArray)) return invalid(schema, "prefixItems", "an array");
  if (first || rest) {
    ItemRules& rules = shape.items.emplace_back();
    for (size_t i = 0; first && i < first->list().size(); ++i) {
      rules.first.push_back({of_schema(first->list()[i])});
    }
    if (rest) rules.rest = {of_schema(*rest)};
    shape.evaluated.n_items = rules.first.size();
    shape.evaluated.all_items = rest != nullptr;
  }
  return apply_contains(schema, shape);
}

Result<void> ShapeMaker::apply_contains(const Json& schema, Shape& shape) {
  const Json* contains = schema.find("contains");
  if (!contains || document_.draft() < Draft::k6) return {};
  ContainsRule rule{of_schema(*contains)};
  if (document_.draft() >= Draft::k2019) {
    TRY_ASSIGN(const auto min, count(schema, "minContains"));
    TRY_ASSIGN(const auto max, count(schema, "maxContains"));
    rule.min = min.value_or(1);
    rule.max = max.value_or(RegularPool::kUnbounded);
  }
  shape.contains.push_back(rule);
  return {};
}

Result<Shapes> ShapeMaker::own_shapes(const Json& schema) {
  Shape shape = everything();
  TRY(apply_type(schema, shape));
  TRY(apply_numbers(schema, shape));
  TRY(apply_strings(schema, shape));
  TRY(apply_objects(schema, shape));
  TRY(apply_arrays(schema, shape));
  Shapes shapes;
  if (clean(shape)) shapes.push_back(std::move(shape));
  const auto restrict = [&](Shapes further) -> Result<void> {
    TRY_ASSIGN(shapes, join(shapes, further));
    return {};
  };
  if (const Json* values = schema.find("enum")) {
    if (!values->is(Json::Kind::kArray)) return invalid(schema, "enum", "an array");
    // All scalars form one shape, because each type has its own member.
    Shape scalars = only(0);
    scalars.string = scalars.number = Regular::kNothing;
    std::vector<Regular> numbers, written;
    std::vector<std::u32string> texts;
    Shapes all;
    for (const Json& value : values->list()) {
      Shapes one = constant(value);
      const uint8_t type = one.front().types;
      if (type == Shape::kObject || type == Shape::kArray) {
        all.push_back(std::move(one.front()));
        continue;
      }
      scalars.types |= type;
      if (type == Shape::kString) texts.push_back(to_characters(value.text()));
      if (type != Shape::kNumber) continue;
      numbers.push_back(one.front().number);
      written.push_back(one.front().number_style.written);
    }
    scalars.string = pool_.one_of(std::move(texts));
    scalars.number = pool_.choice(numbers);
    scalars.number_style.written = pool_.choice(written);
    if (scalars.types != 0) all.push_back(std::move(scalars));
    TRY(restrict(std::move(all)));
  }
  if (const Json* value = schema.find("const"); value && document_.draft() >= Draft::k6) {
    TRY(restrict(constant(*value)));
  }
  return shapes;
}

Shapes ShapeMaker::constant(const Json& value) {
  Shape shape = only(0);
  switch (value.kind()) {
    case Json::Kind::kNull:
      shape.types = Shape::kNull;
      break;
    case Json::Kind::kFalse:
      shape.types = Shape::kFalse;
      break;
    case Json::Kind::kTrue:
      shape.types = Shape::kTrue;
      break;
    case Json::Kind::kNumber: {
      shape.types = Shape::kNumber;
      const auto number = Decimal::parse(value.number_text());
      // A number beyond Decimal is allowed only as it is written.
      shape.number = number ? pool_.compared(*number, kEqual)
                            : pool_.literal(to_characters(value.number_text()));
      if (options_.language == SchemaOptions::Language::kCanonical) {
        shape.number_style.written = pool_.literal(to_characters(value.number_text()));
      }
      break;
    }
    case Json::Kind::kString:
      shape.types = Shape::kString;
      shape.string = pool_.literal(to_characters(value.text()));
      break;
    case Json::Kind::kArray: {
      shape.types = Shape::kArray;
      ItemRules& rules = shape.items.emplace_back();
      for (const Json& item : value.list()) {
        rules.first.push_back({number_of(item, Meaning::kConstant)});
      }
      rules.rest = {never()};
      shape.min_items = shape.max_items = static_cast<uint32_t>(value.list().size());
      break;
    }
    case Json::Kind::kObject: {
      shape.types = Shape::kObject;
      ObjectRules& rules = shape.object.emplace_back();
      for (const auto& [name, member] : value.fields()) {
        rules.named[name] = {number_of(member, Meaning::kConstant)};
        shape.required.insert(name);
        shape.order.push_back(name);
      }
      shape.evaluated.mentioned = shape.required;
      rules.others = {never()};
      break;
    }
  }
  return {shape};
}

}  // namespace kvik::constrain
