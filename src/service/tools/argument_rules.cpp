#include "service/tools/argument_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "service/tools/call_writer.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {
namespace {

using Values = CallSyntax::Values;

constexpr std::string_view kGemmaQuote = "<|\"|>";

// Maximum size of the rules: each parameter with references contains a copy of the definitions.
constexpr size_t kMaxRuleBytes = 1 << 20;

// Keywords of an object's schema that do not constrain it beyond its properties.
constexpr std::array<std::string_view, 12> kPlainKeys = {
    "type",    "properties", "required", "additionalProperties", "description", "title",
    "$schema", "$defs",      "$id",      "definitions",          "default",     "examples"};
// Keywords of a list's schema that elements can follow.
constexpr std::array<std::string_view, 8> kListKeys = {
    "type", "items", "minItems", "description", "title", "default", "examples", "nullable"};
// Maximum depth of elements in elements.
constexpr int kMaxElementDepth = 8;
constexpr int64_t kMaxElements = 64;  // of "minItems"
// Keywords of a string's schema that do not constrain it; `format` is not enforced.
constexpr std::array<std::string_view, 7> kRemarks = {
    "type", "description", "title", "default", "examples", "format", "nullable"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

const Json::Fields* fields_of(const Json* data) {
  return data ? std::get_if<Json::Fields>(&data->value) : nullptr;
}

const Json::List* list_of(const Json* data) {
  return data ? std::get_if<Json::List>(&data->value) : nullptr;
}

// Returns whether the schema or a nested one has a reference for which `is_asked` returns true.
template <class IsAsked>
bool any_reference(const Json& schema, const IsAsked& is_asked) {
  if (const auto* list = std::get_if<Json::List>(&schema.value)) {
    return std::ranges::any_of(*list,
                               [&](const Json& each) { return any_reference(each, is_asked); });
  }
  const auto* fields = std::get_if<Json::Fields>(&schema.value);
  return fields && std::ranges::any_of(*fields, [&](const Json::Field& field) {
           const auto* to =
               field.name == "$ref" ? std::get_if<std::string>(&field.data.value) : nullptr;
           return to ? is_asked(*to) : any_reference(field.data, is_asked);
         });
}

bool has_reference(const Json& schema) {
  return any_reference(schema, [](std::string_view) { return true; });
}

// Returns whether a reference points outside the definitions, which are the only part copied into a
// parameter's schema.
bool has_foreign_reference(const Json& schema) {
  return any_reference(schema, [](std::string_view to) {
    return !to.starts_with("#/$defs/") && !to.starts_with("#/definitions/");
  });
}

// Returns whether a parameter may have that name in every syntax.
bool is_name(std::string_view name) {
  constexpr std::string_view kMarks = "<>{}[]()=:,\"'` \n";
  return !name.empty() && name.find_first_of(kMarks) == name.npos;
}

// Returns the names that a schema requires.
Kinds required_of(const Json& schema) {
  Kinds required;
  const Json::List* names = list_of(find_field(schema, "required"));
  for (size_t i = 0; names && i < names->size(); ++i) {
    if (const auto* name = std::get_if<std::string>(&(*names)[i].value)) required.insert(*name);
  }
  return required;
}

GrammarNode between(std::string before, GrammarNode node, std::string_view after) {
  return GrammarNode::sequence({GrammarNode::of_text(std::move(before)), std::move(node),
                                GrammarNode::of_text(std::string(after))});
}

class Writer {
 public:
  Writer(const CallSyntax& syntax, const Json& root, GrammarRules& rules)
      : syntax_(syntax), root_(root), rules_(rules) {
    for (const std::string_view name : {"$defs", "definitions"}) {
      if (const Json* definitions = find_field(root, name))
        definitions_ += fmt::format(",{}:{}", json_string(name), to_json(*definitions));
    }
  }

  std::optional<GrammarNode> write();

 private:
  struct Parameter {
    GrammarNode node;
    bool is_required;
  };

  std::optional<GrammarNode> parameter_of(const std::string& name, const Json& schema) const;
  std::optional<GrammarNode> text_of(const Json& schema, const Kinds& kinds) const;
  std::optional<GrammarNode> element_of(const std::string& name, const Json& schema,
                                        int depth) const;
  std::optional<GrammarNode> element_value(const Json& schema, int depth) const;
  std::optional<GrammarNode> elements_of(const Json& schema, int depth) const;
  std::optional<GrammarNode> text_value(const Json& schema) const;
  GrammarNode any_text() const;
  GrammarNode quoted(GrammarNode text) const;
  GrammarNode json_value(const Json& schema) const;
  GrammarNode body_of(std::vector<Parameter> parameters);
  // Returns the text that ends an unquoted string.
  std::string_view text_end() const {
    if (syntax_.values == Values::kGemma) return kGemmaQuote;
    if (syntax_.values == Values::kElements) return kTagNamespace;
    std::string_view end = syntax_.after_value;
    end.remove_prefix(std::min(end.find_first_not_of('\n'), end.size()));
    return end.substr(0, end.find_last_not_of('\n') + 1);
  }

  const CallSyntax& syntax_;
  const Json& root_;
  GrammarRules& rules_;
  // the definitions as further JSON fields, for parameters with references
  std::string definitions_;
};

// Returns a node for a JSON value. A schema with references includes a copy of the definitions.
GrammarNode Writer::json_value(const Json& schema) const {
  const Json::Fields* fields = fields_of(&schema);
  if (!fields) return GrammarNode::of_schema("{}");
  std::string json = to_json(schema);
  const bool has_own = find_field(schema, "$defs") || find_field(schema, "definitions");
  if (!fields->empty() && !has_own && has_reference(schema)) {
    json.pop_back();
    json += definitions_ + "}";
  }
  return GrammarNode::of_schema(std::move(json));
}

GrammarNode Writer::quoted(GrammarNode text) const {
  return between(std::string(syntax_.quote), std::move(text), syntax_.end_quote);
}

GrammarNode Writer::any_text() const {
  if (syntax_.quote.empty()) return text_excluding({text_end()});
  std::string bytes;
  for (const char byte : syntax_.quoted) bytes += byte == '\n' ? "\\n" : std::string(1, byte);
  return GrammarNode::choice(
      {GrammarNode::of_pattern("[^" + bytes + "]*"), quoted(text_excluding({syntax_.end_quote}))});
}

// Returns a node for a string without quotes; nullopt if its schema cannot be enforced in this
// notation.
std::optional<GrammarNode> Writer::text_value(const Json& schema) const {
  std::vector<std::string> texts;
  const Json* only = find_field(schema, "const");
  const Json::List* several = list_of(find_field(schema, "enum"));
  for (size_t i = 0; several && i < several->size(); ++i) {
    const auto* text = std::get_if<std::string>(&(*several)[i].value);
    if (!text) return std::nullopt;
    texts.push_back(*text);
  }
  if (const auto* text = only ? std::get_if<std::string>(&only->value) : nullptr) texts = {*text};
  const Json::Fields* fields = fields_of(&schema);
  const bool is_plain = !fields || std::ranges::all_of(*fields, [&](const Json::Field& field) {
    const bool is_listed = field.name == "enum" || field.name == "const";
    // a choice of types, checked before
    const bool is_choice = field.name == "anyOf" || field.name == "oneOf";
    return is_listed || is_choice || is_one_of(kRemarks, field.name);
  });
  if (!is_plain) return std::nullopt;
  if (texts.empty()) return any_text();
  std::vector<GrammarNode> choices;
  for (const std::string& text : texts) {
    const bool has_quotes = syntax_.needs_quotes(text);
    const std::string_view end = has_quotes ? syntax_.end_quote : text_end();
    const bool is_safe =
        !text.empty() && !text.contains(end) && !text.starts_with('\n') && !text.ends_with('\n');
    if (!is_safe) return std::nullopt;
    choices.push_back(has_quotes ? quoted(GrammarNode::of_text(text)) : GrammarNode::of_text(text));
  }
  return GrammarNode::choice(std::move(choices));
}

// Returns whether a reader of unquoted text recognizes this type besides strings.
bool is_scalar(std::string_view kind) {
  return kind == "string" || kind == "null" || kind == "boolean" || kind == "integer" ||
         kind == "number";
}

// Returns whether anyOf and oneOf only choose types, without further constraints.
bool has_plain_choices(const Json& schema) {
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const Json::List* choices = list_of(find_field(schema, name));
    for (size_t i = 0; choices && i < choices->size(); ++i) {
      const Json::Fields* fields = fields_of(&(*choices)[i]);
      const bool is_plain = fields && std::ranges::all_of(*fields, [](const Json::Field& field) {
                              return is_one_of(kRemarks, field.name);
                            });
      if (!is_plain) return false;
    }
  }
  return true;
}

// Returns a node for a text without quotes, of a parameter that may be a string.
std::optional<GrammarNode> Writer::text_of(const Json& schema, const Kinds& kinds) const {
  const bool is_union = kinds.size() > 1;
  const bool is_kept = (!is_union || std::ranges::all_of(kinds, is_scalar)) &&
                       has_plain_choices(schema) && !find_field(schema, "$ref");
  return is_kept ? text_value(schema) : std::nullopt;
}

std::optional<GrammarNode> Writer::element_of(const std::string& name, const Json& schema,
                                              int depth) const {
  auto value = element_value(schema, depth);
  if (!value) return std::nullopt;
  return between(fmt::format("{}<{}>", kTagNamespace, name), std::move(*value),
                 fmt::format("{}</{}>", kTagNamespace, name));
}

std::optional<GrammarNode> Writer::element_value(const Json& schema, int depth) const {
  if (depth > kMaxElementDepth) return std::nullopt;
  if (const Json* to = find_field(schema, "$ref")) {
    const auto* name = std::get_if<std::string>(&to->value);
    const Json* target = name ? follow_reference(root_, *name) : nullptr;
    return target ? element_value(*target, depth + 1) : std::nullopt;
  }
  const Kinds kinds = kinds_of(root_, schema);
  if (kinds.empty() || kinds.contains("string")) return text_of(schema, kinds);
  if (std::ranges::all_of(kinds, is_scalar)) return json_value(schema);
  if (kinds.size() > 1) return std::nullopt;
  if (kinds.contains("object")) return elements_of(schema, depth + 1);
  const Json::Fields& fields = *fields_of(&schema);
  const bool is_plain = std::ranges::all_of(
      fields, [](const Json::Field& field) { return is_one_of(kListKeys, field.name); });
  const Json* items = find_field(schema, "items");
  if (!is_plain || !items) return std::nullopt;
  const Json* least = find_field(schema, "minItems");
  const auto* n = least ? std::get_if<int64_t>(&least->value) : nullptr;
  if (least && (!n || *n < 0 || *n > kMaxElements)) return std::nullopt;
  auto item = element_of("item", *items, depth + 1);
  if (!item) return std::nullopt;
  return GrammarNode::repeat(std::move(*item), n ? static_cast<uint32_t>(*n) : 0,
                             GrammarNode::kUnbounded);
}

// Returns a node for the elements of an object, in the order of its schema.
std::optional<GrammarNode> Writer::elements_of(const Json& schema, int depth) const {
  const Json::Fields& fields = *fields_of(&schema);
  const bool is_plain = std::ranges::all_of(
      fields, [](const Json::Field& field) { return is_one_of(kPlainKeys, field.name); });
  const Json::Fields* properties = fields_of(find_field(schema, "properties"));
  if (!is_plain || !properties) return std::nullopt;
  const Kinds required = required_of(schema);
  std::vector<GrammarNode> all;
  for (const auto& [name, child] : *properties) {
    if (!is_name(name)) return std::nullopt;
    auto element = element_of(name, child, depth);
    if (!element) return std::nullopt;
    all.push_back(required.contains(name) ? std::move(*element)
                                          : GrammarNode::repeat(std::move(*element), 0, 1));
  }
  const bool has_all = std::ranges::all_of(required, [&](const std::string& name) {
    return find_field(*find_field(schema, "properties"), name);
  });
  return has_all ? std::optional(GrammarNode::sequence(std::move(all))) : std::nullopt;
}

std::optional<GrammarNode> Writer::parameter_of(const std::string& name, const Json& schema) const {
  if (has_foreign_reference(schema)) return std::nullopt;
  if (syntax_.values == Values::kElements) return element_of(name, schema, 0);
  if (syntax_.values == Values::kPython) return between(name + "=", json_value(schema), "");
  const Kinds kinds = kinds_of(root_, schema);
  const bool may_be_text = kinds.empty() || kinds.contains("string");
  const bool is_gemma = syntax_.values == Values::kGemma;
  if (!may_be_text) {
    const bool is_flat = std::ranges::all_of(kinds, is_scalar);
    if (is_gemma && !is_flat) return std::nullopt;
    if (is_gemma) return between(name + ":", json_value(schema), "");
    const std::string_view after_key =
        syntax_.after_json_key.empty() ? syntax_.after_key : syntax_.after_json_key;
    return between(fmt::format("{}{}{}", syntax_.key, name, after_key), json_value(schema),
                   syntax_.after_value);
  }
  auto text = text_of(schema, kinds);
  if (!text) return std::nullopt;
  if (is_gemma)
    return between(fmt::format("{}:{}", name, kGemmaQuote), std::move(*text), kGemmaQuote);
  return between(fmt::format("{}{}{}", syntax_.key, name, syntax_.after_key), std::move(*text),
                 syntax_.after_value);
}

// Returns a node for the parameters in order, where each optional one may be absent.
GrammarNode Writer::body_of(std::vector<Parameter> parameters) {
  if (syntax_.values == Values::kParameters || syntax_.values == Values::kElements) {
    std::vector<GrammarNode> all;
    for (Parameter& each : parameters) {
      all.push_back(each.is_required ? std::move(each.node)
                                     : GrammarNode::repeat(std::move(each.node), 0, 1));
    }
    return GrammarNode::sequence(std::move(all));
  }
  const std::string separator = syntax_.values == Values::kPython ? ", " : ",";
  // The parameters from i on: `first` if none was written before, `more` if some were.
  GrammarNode first = GrammarNode::sequence({}), more = first;
  for (size_t i = parameters.size(); i-- > 0;) {
    const GrammarNode parameter = rules_.add(std::move(parameters[i].node));
    std::vector<GrammarNode> firsts = {GrammarNode::sequence({parameter, more})};
    std::vector<GrammarNode> further = {
        GrammarNode::sequence({GrammarNode::of_text(separator), parameter, more})};
    if (!parameters[i].is_required) {
      firsts.push_back(std::move(first));
      further.push_back(std::move(more));
    }
    first = rules_.add(GrammarNode::choice(std::move(firsts)));
    more = rules_.add(GrammarNode::choice(std::move(further)));
  }
  return first;
}

std::optional<GrammarNode> Writer::write() {
  const Json::Fields* fields = fields_of(&root_);
  const bool is_plain = fields && std::ranges::all_of(*fields, [](const Json::Field& field) {
                          return is_one_of(kPlainKeys, field.name);
                        });
  if (fields && !fields->empty() && !is_plain) return std::nullopt;
  const Json::Fields* properties = fields_of(find_field(root_, "properties"));
  const Json* more = find_field(root_, "additionalProperties");
  if ((!properties || properties->empty()) && fields_of(more)) return std::nullopt;
  Kinds required = required_of(root_);
  std::vector<Parameter> parameters;
  size_t bytes = 0;
  for (size_t i = 0; properties && i < properties->size(); ++i) {
    const auto& [name, schema] = (*properties)[i];
    if (!is_name(name)) return std::nullopt;
    auto parameter = parameter_of(name, schema);
    if (!parameter) return std::nullopt;
    bytes += n_bytes(*parameter);
    if (bytes > kMaxRuleBytes) return std::nullopt;
    parameters.push_back({std::move(*parameter), required.erase(name) > 0});
  }
  if (!required.empty()) return std::nullopt;  // a required parameter has no schema
  return body_of(std::move(parameters));
}

}  // namespace

std::string literal_pattern(std::string_view text) {
  constexpr std::string_view kSyntax = "^$\\.*+?()[]{}|";
  std::string pattern;
  for (const char byte : text) {
    if (byte == '\n') {
      pattern += "\\n";
      continue;
    }
    if (kSyntax.contains(byte)) pattern += '\\';
    pattern += byte;
  }
  return pattern;
}

std::string bare_opening_pattern(std::string_view name) {
  return fmt::format("\\{{\\s{{0,8}}\"name\"\\s{{0,8}}:\\s{{0,8}}{}",
                     literal_pattern(json_string(name)));
}

GrammarNode text_excluding(const std::vector<std::string_view>& marks, std::string_view first,
                           const std::vector<std::string>& patterns) {
  std::string ahead;
  for (const std::string_view mark : marks) ahead += fmt::format("(?!.*{})", literal_pattern(mark));
  for (const std::string& pattern : patterns) ahead += fmt::format("(?!.*{})", pattern);
  if (first.empty()) return GrammarNode::of_pattern(ahead + ".*");
  return GrammarNode::of_pattern(fmt::format("(|{}\\s*{}.*)", ahead, first));
}

std::optional<GrammarNode> argument_rules(const CallSyntax& syntax, const Json* parameters,
                                          GrammarRules& rules) {
  const Json none = {Json::Fields{}};
  const Json::Fields* fields = fields_of(parameters);
  if (syntax.has_json_arguments()) return json_arguments(parameters);
  return Writer(syntax, fields ? *parameters : none, rules).write();
}

// An absent or empty schema allows any object.
GrammarNode json_arguments(const Json* parameters) {
  const Json::Fields* fields = fields_of(parameters);
  const bool is_empty = !fields || fields->empty();
  return GrammarNode::of_schema(is_empty ? R"({"type": "object"})" : to_json(*parameters));
}

GrammarNode free_arguments(const CallSyntax& syntax) {
  if (syntax.has_json_arguments()) return json_arguments(nullptr);
  return text_excluding({syntax.call_end()});
}

}  // namespace kvik
