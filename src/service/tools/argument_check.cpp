#include "service/tools/argument_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/json/json.h"
#include "service/tools/tool_schemas.h"

namespace kvik {
namespace {

using JsonKind = Json::Kind;

constexpr int kMaxCheckDepth = 64;          // nesting of references and values
constexpr size_t kMaxCheckSteps = 100'000;  // fields, list elements and values examined

std::optional<double> number_of(const Json* data) { return data ? data->number() : std::nullopt; }

bool is_of_type(std::string_view type, const Json& value) {
  if (type == "null") return value.is(JsonKind::kNull);
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is(JsonKind::kString);
  if (type == "array") return value.is(JsonKind::kArray);
  if (type == "object") return value.is(JsonKind::kObject);
  if (type == "number") return value.is(JsonKind::kNumber);
  if (type != "integer") return true;  // not a type of JSON Schema
  const auto number = value.number();
  return number && *number == std::trunc(*number);
}

bool is_equal(const Json& value, const Json& wanted);

bool is_equal(const Json& value, const Json::List& wanted) {
  if (!value.is(JsonKind::kArray) || value.size() != wanted.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!is_equal(value[i], wanted[i])) return false;
  }
  return true;
}

bool is_equal(const Json& value, const Json::Fields& wanted) {
  if (!value.is(JsonKind::kObject) || value.size() != wanted.size()) return false;
  return std::ranges::all_of(wanted, [&](const Json::Field& field) {
    const Json* item = value.find(field.name);
    return item && is_equal(*item, field.data);
  });
}

bool is_equal(const Json& value, const Json& wanted) {
  if (const auto* text = std::get_if<std::string>(&wanted.value))
    return value.is(JsonKind::kString) && value.text() == *text;
  if (const auto* list = std::get_if<Json::List>(&wanted.value)) return is_equal(value, *list);
  if (const auto* fields = std::get_if<Json::Fields>(&wanted.value))
    return is_equal(value, *fields);
  if (const auto* boolean = std::get_if<bool>(&wanted.value))
    return value.is(*boolean ? JsonKind::kTrue : JsonKind::kFalse);
  if (std::holds_alternative<Json::Null>(wanted.value)) return value.is(JsonKind::kNull);
  return value.is(JsonKind::kNumber) && value.number() == wanted.number();
}

const Json::List* list_at(const Json& schema, std::string_view name) {
  const Json* found = find_field(schema, name);
  return found ? std::get_if<Json::List>(&found->value) : nullptr;
}

size_t n_characters(std::string_view utf8) {
  return static_cast<size_t>(std::ranges::count_if(
      utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

size_t n_fields(const Json* data) {
  const auto* fields = data ? std::get_if<Json::Fields>(&data->value) : nullptr;
  return fields ? fields->size() : 0;
}

size_t n_values(const Json& json) {
  size_t n = 1;
  for (size_t i = 0; i < json.size(); ++i) n += n_values(json[i]);
  return n;
}

// Checks a value against a schema. Recursive references and nested choices can make a check
// exponential, and it runs between two tokens. A check that needs more than kMaxCheckSteps steps
// therefore fails.
class Check {
 public:
  explicit Check(const Json& root) : root_(root) {
    n_definitions_ =
        n_fields(find_field(root, "$defs")) + n_fields(find_field(root, "definitions"));
  }

  bool fits_root(const Json& value) { return fits(root_, value, 0) && n_steps_ <= kMaxCheckSteps; }

 private:
  // Counts n steps. Returns false if the limit is exceeded.
  bool spend(size_t n) { return (n_steps_ += n) <= kMaxCheckSteps; }

  bool fits(const Json& schema, const Json& value, int depth);
  bool fits_type(const Json& schema, const Json& value) const;
  bool fits_values(const Json& schema, const Json& value);
  bool fits_bounds(const Json& schema, const Json& value) const;
  bool fits_choices(const Json& schema, const Json& value, int depth);
  bool fits_object(const Json& schema, const Json& value, int depth);
  bool fits_items(const Json& schema, const Json& value, int depth);

  const Json& root_;
  size_t n_definitions_ = 0;
  size_t n_steps_ = 0;
};

bool Check::fits(const Json& schema, const Json& value, int depth) {
  if (depth > kMaxCheckDepth || !spend(1 + n_fields(&schema))) return false;
  if (const auto* is_any = std::get_if<bool>(&schema.value)) return *is_any;
  if (const Json* reference = find_field(schema, "$ref")) {
    const auto* path = std::get_if<std::string>(&reference->value);
    if (!spend(n_definitions_ + (path ? path->size() : 0))) return false;
    const Json* target = path ? follow_reference(root_, *path) : nullptr;
    if (!target || !fits(*target, value, depth + 1)) return false;
  }
  if (!fits_type(schema, value) || !fits_values(schema, value)) return false;
  if (!fits_bounds(schema, value) || !fits_choices(schema, value, depth)) return false;
  if (value.is(JsonKind::kObject)) return fits_object(schema, value, depth);
  return !value.is(JsonKind::kArray) || fits_items(schema, value, depth);
}

bool Check::fits_type(const Json& schema, const Json& value) const {
  const Json* type = find_field(schema, "type");
  if (!type) return true;
  const Json* nullable = find_field(schema, "nullable");
  if (nullable && nullable->value == Json{true}.value && value.is(JsonKind::kNull)) return true;
  if (const auto* one = std::get_if<std::string>(&type->value)) return is_of_type(*one, value);
  const auto* several = std::get_if<Json::List>(&type->value);
  return !several || std::ranges::any_of(*several, [&](const Json& each) {
    const auto* one = std::get_if<std::string>(&each.value);
    return one && is_of_type(*one, value);
  });
}

bool Check::fits_values(const Json& schema, const Json& value) {
  const Json* only = find_field(schema, "const");
  if (only && !is_equal(value, *only)) return false;
  const Json::List* values = list_at(schema, "enum");
  if (values && !spend(values->size() * n_values(value))) return false;
  return !values ||
         std::ranges::any_of(*values, [&](const Json& each) { return is_equal(value, each); });
}

bool Check::fits_bounds(const Json& schema, const Json& value) const {
  const auto bound = [&](std::string_view name) { return number_of(find_field(schema, name)); };
  const auto is_within = [&](std::string_view least, std::string_view most, size_t n) {
    const auto min = bound(least), max = bound(most);
    const auto size = static_cast<double>(n);
    return (!min || size >= *min) && (!max || size <= *max);
  };
  if (value.is(JsonKind::kArray)) return is_within("minItems", "maxItems", value.size());
  if (value.is(JsonKind::kString)) {
    return is_within("minLength", "maxLength", n_characters(value.text()));
  }
  const auto number = value.number();
  if (!number) return true;
  const auto least = bound("minimum"), most = bound("maximum");
  const auto above = bound("exclusiveMinimum"), below = bound("exclusiveMaximum");
  return (!least || *number >= *least) && (!most || *number <= *most) &&
         (!above || *number > *above) && (!below || *number < *below);
}

bool Check::fits_choices(const Json& schema, const Json& value, int depth) {
  const auto fits_one = [&](const Json& choice) { return fits(choice, value, depth + 1); };
  const Json::List* all = list_at(schema, "allOf");
  if (all && !std::ranges::all_of(*all, fits_one)) return false;
  const Json::List* any = list_at(schema, "anyOf");
  if (any && std::ranges::none_of(*any, fits_one)) return false;
  const Json::List* one = list_at(schema, "oneOf");
  return !one || std::ranges::count_if(*one, fits_one) == 1;
}

bool Check::fits_object(const Json& schema, const Json& value, int depth) {
  const Json::List* required = list_at(schema, "required");
  const Json* properties = find_field(schema, "properties");
  const size_t n_names = (required ? required->size() : 0) + n_fields(properties);
  if (!spend(n_names * (1 + value.size()))) return false;
  const bool has_all = !required || std::ranges::all_of(*required, [&](const Json& each) {
    const auto* name = std::get_if<std::string>(&each.value);
    return !name || value.find(*name);
  });
  if (!has_all) return false;
  const Json* further = find_field(schema, "additionalProperties");
  const bool is_open =
      !properties || find_field(schema, "patternProperties") || find_field(schema, "allOf");
  for (const auto& [name, item] : value.fields()) {
    const Json* property = properties ? find_field(*properties, name) : nullptr;
    const Json* its_schema = property ? property : further;
    if (!its_schema && !is_open) return false;
    if (its_schema && !fits(*its_schema, item, depth + 1)) return false;
  }
  return true;
}

bool Check::fits_items(const Json& schema, const Json& value, int depth) {
  const Json* items = find_field(schema, "items");
  if (!items || std::holds_alternative<Json::List>(items->value)) return true;
  return std::ranges::all_of(value.list(),
                             [&](const Json& item) { return fits(*items, item, depth + 1); });
}

}  // namespace

bool fits_schema(const Json* schema, std::string_view json) {
  const auto value = parse_json(json);
  if (!value || !value->is(JsonKind::kObject)) return false;
  return !schema || Check(*schema).fits_root(*value);
}

}  // namespace kvik
