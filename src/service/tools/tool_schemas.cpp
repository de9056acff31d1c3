#include "service/tools/tool_schemas.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/blanks.h"
#include "service/tools/argument_check.h"
#include "service/tools/value_reader.h"

namespace kvik {
namespace {

const std::string* string_at(const Json& object, std::string_view name) {
  const Json* field = find_field(object, name);
  return field ? std::get_if<std::string>(&field->value) : nullptr;
}

std::string_view kind_of(const Json& value) {
  struct Names {
    std::string_view operator()(Json::Null) const { return "null"; }
    std::string_view operator()(bool) const { return "boolean"; }
    std::string_view operator()(int64_t) const { return "integer"; }
    std::string_view operator()(double) const { return "number"; }
    std::string_view operator()(const Json::Number&) const { return "number"; }
    std::string_view operator()(const std::string&) const { return "string"; }
    std::string_view operator()(const Json::List&) const { return "array"; }
    std::string_view operator()(const Json::Fields&) const { return "object"; }
  };
  return std::visit(Names{}, value.value);
}

// Collects the types that a schema allows, following references and choices. Each schema is
// examined once, however often it is referenced.
class TypeCollector {
 public:
  TypeCollector(const Json& root, const Json& schema) : root_(root) { add(&schema); }

  // Returns the types. Returns an empty set, which means any type, if there are too many schemas.
  std::set<std::string, std::less<>> gather() {
    for (size_t i = 0; i < schemas_.size(); ++i) {
      if (i == kMaxSchemas) return {};
      collect(*schemas_[i]);
    }
    for (size_t i = 0; i < schemas_.size() && kinds_.empty(); ++i) {
      if (find_field(*schemas_[i], "properties")) kinds_.emplace("object");
      if (find_field(*schemas_[i], "items")) kinds_.emplace("array");
    }
    return std::move(kinds_);
  }

 private:
  static constexpr size_t kMaxSchemas = 256;

  void add(const Json* schema) {
    if (std::ranges::find(schemas_, schema) == schemas_.end()) schemas_.push_back(schema);
  }

  void collect(const Json& schema) {
    if (const Json* type = find_field(schema, "type")) {
      if (const auto* one = std::get_if<std::string>(&type->value)) kinds_.insert(*one);
      if (const auto* several = std::get_if<Json::List>(&type->value)) {
        for (const Json& each : *several) {
          if (const auto* one = std::get_if<std::string>(&each.value)) kinds_.insert(*one);
        }
      }
      return;
    }
    if (const Json* all = find_field(schema, "enum")) {
      if (const auto* values = std::get_if<Json::List>(&all->value)) {
        for (const Json& value : *values) kinds_.emplace(kind_of(value));
      }
      return;
    }
    if (const Json* value = find_field(schema, "const")) kinds_.emplace(kind_of(*value));
    if (const std::string* reference = string_at(schema, "$ref")) {
      if (const Json* target = follow_reference(root_, *reference)) add(target);
    }
    for (const std::string_view name : {"anyOf", "oneOf", "allOf"}) {
      const Json* choices = find_field(schema, name);
      const auto* list = choices ? std::get_if<Json::List>(&choices->value) : nullptr;
      for (size_t i = 0; list && i < list->size() && schemas_.size() <= kMaxSchemas; ++i) {
        add(&(*list)[i]);
      }
    }
  }

  const Json& root_;
  std::vector<const Json*> schemas_;
  std::set<std::string, std::less<>> kinds_;
};

// Returns whether a number is an integer. 3.0 is one, as in JSON Schema.
bool is_whole(std::string_view number) {
  if (number.find_first_of(".eE") == number.npos) return true;
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  return read.ec == std::errc() && value == std::trunc(value);
}

// Returns a list or an object as JSON; empty if the text is neither. Some templates write them in
// Python's notation, and so do models.
std::string structure_of(std::string_view text) {
  const std::string json = read_json(text);
  return json.empty() ? read_value(text, kPython) : json;
}

// Returns the text as a value of this type; empty if it is not one.
std::string as_kind(std::string_view kind, std::string_view text) {
  if (kind == "null") return text == "null" || text == "None" ? "null" : "";
  if (kind == "boolean") {
    if (text == "true" || text == "True") return "true";
    return text == "false" || text == "False" ? "false" : "";
  }
  const bool is_structure = text.starts_with('{') || text.starts_with('[');
  const bool is_number = !is_structure && !text.starts_with('"') && text != "true" &&
                         text != "false" && text != "null" && !read_json(text).empty();
  if (kind == "number") return is_number ? std::string(text) : "";
  if (kind == "integer") return is_number && is_whole(text) ? std::string(text) : "";
  const char bracket = kind == "object" ? '{' : kind == "array" ? '[' : '\0';
  return text.starts_with(bracket) ? structure_of(text) : std::string();
}

}  // namespace

std::set<std::string, std::less<>> kinds_of(const Json& root, const Json& schema) {
  return TypeCollector(root, schema).gather();
}

const Json* find_field(const Json& object, std::string_view name) {
  const auto* fields = std::get_if<Json::Fields>(&object.value);
  if (!fields) return nullptr;
  const auto found = std::ranges::find(*fields, name, &Json::Field::name);
  return found == fields->end() ? nullptr : &found->data;
}

const Json* follow_reference(const Json& root, std::string_view reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* at = &root;
  reference.remove_prefix(2);
  while (at && !reference.empty()) {
    const size_t end = std::min(reference.find('/'), reference.size());
    at = find_field(*at, reference.substr(0, end));
    reference.remove_prefix(std::min(end + 1, reference.size()));
  }
  return at;
}

ToolSchemas::ToolSchemas(const std::vector<Json>& tools) {
  for (const Json& given : tools) {
    const Json* function = find_field(given, "function");
    const Json& inner = function ? *function : given;
    const std::string* name = string_at(inner, "name");
    if (!name) continue;
    Tool& tool = tools_[*name];
    if (const Json* parameters = find_field(inner, "parameters")) tool.parameters = *parameters;
    tool.properties.clear();
    const Json* properties = find_field(tool.parameters, "properties");
    const auto* fields = properties ? std::get_if<Json::Fields>(&properties->value) : nullptr;
    if (!fields) continue;
    for (const Json::Field& field : *fields) tool.properties[field.name] = &field.data;
  }
}

std::set<std::string, std::less<>> ToolSchemas::kinds_of_parameter(
    std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return {};
  const auto property = found->second.properties.find(parameter);
  if (property == found->second.properties.end()) return {};
  return kinds_of(found->second.parameters, *property->second);
}

bool ToolSchemas::fits(std::string_view tool, std::string_view arguments) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return false;
  const Json& parameters = found->second.parameters;
  const bool has_schema = std::holds_alternative<Json::Fields>(parameters.value);
  return fits_schema(has_schema ? &parameters : nullptr, arguments);
}

bool ToolSchemas::is_string(std::string_view tool, std::string_view parameter) const {
  const auto kinds = kinds_of_parameter(tool, parameter);
  return kinds.size() == 1 && kinds.contains("string");
}

const Json* ToolSchemas::parameters_of(std::string_view tool) const {
  const auto found = tools_.find(tool);
  const bool has_schema =
      found != tools_.end() && std::holds_alternative<Json::Fields>(found->second.parameters.value);
  return has_schema ? &found->second.parameters : nullptr;
}

std::string ToolSchemas::json_of(std::string_view tool, std::string_view parameter,
                                 std::string_view text) const {
  return json_of_kinds(kinds_of_parameter(tool, parameter), text);
}

std::string json_of_kinds(const Kinds& kinds, std::string_view text) {
  const std::string_view bare = trimmed(text);
  const bool is_known = !kinds.empty();
  for (const std::string_view kind : {"null", "boolean", "integer", "number", "array", "object"}) {
    const bool is_structure = kind == "array" || kind == "object";
    if (is_known ? !kinds.contains(kind) : !is_structure || read_json(bare).empty()) continue;
    if (std::string json = as_kind(kind, bare); !json.empty()) return json;
  }
  return json_string(text);
}

}  // namespace kvik
