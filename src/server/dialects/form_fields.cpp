#include "server/dialects/form_fields.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "server/dialects/raw_json.h"
#include "service/request_bounds.h"
#include "service/structural_tag/structural_tag.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Kind = StructuredOutput::Kind;
using MaybeForm = std::optional<StructuredOutput>;

Result<void> check_bytes(size_t n_bytes, std::string_view param) {
  if (n_bytes <= RequestBounds::kFormBytes) return {};
  return refuse(param, fmt::format("{} has {} bytes, at most {} are allowed", param, n_bytes,
                                   RequestBounds::kFormBytes));
}

Result<MaybeForm> make_form(Kind kind, std::string text, std::string_view param) {
  TRY(check_bytes(text.size(), param));
  return MaybeForm(
      StructuredOutput{.kind = kind, .text = std::move(text), .param = std::string(param)});
}

// The schema's text is taken from the body later, so that its numbers are exact.
Result<MaybeForm> schema_form(const json::value& schema, std::string_view param) {
  if (!schema.is_object() && !schema.is_bool())
    return wrong_type(param, "a JSON schema: an object, true or false", schema);
  return make_form(Kind::kJsonSchema, "", param);
}

// An object, or its text, as in vLLM.
Result<MaybeForm> schema_or_text_form(const json::value& schema, std::string_view param) {
  if (!schema.is_string()) return schema_form(schema, param);
  return make_form(Kind::kJsonSchema, std::string(view(schema.get_string())), param);
}

Result<MaybeForm> text_form(Kind kind, const json::value& text, std::string_view param) {
  if (!text.is_string()) return wrong_type(param, "a string", text);
  return make_form(kind, std::string(view(text.get_string())), param);
}

// An empty grammar counts as none, as in llama.cpp.
Result<MaybeForm> grammar_form(const json::value& grammar, std::string_view param) {
  const std::string_view text = grammar.is_string() ? view(grammar.get_string()) : "";
  if (grammar.is_string() && text.empty()) return MaybeForm();
  return text_form(grammar_kind(text), grammar, param);
}

Result<MaybeForm> choice_form(const json::value& choices, std::string_view param) {
  if (!choices.is_array()) return wrong_type(param, "an array of strings", choices);
  const json::array& array = choices.get_array();
  if (array.empty() || array.size() > RequestBounds::kFormChoices)
    return refuse(param, fmt::format("{} holds {} strings, expected 1 to {}", param, array.size(),
                                     RequestBounds::kFormChoices));
  TextList texts;
  texts.reserve(array.size());
  for (const json::value& choice : array) {
    if (!choice.is_string()) return wrong_type(param, "an array of strings", choice);
    texts.add(view(choice.get_string()));
    if (texts.n_bytes() > RequestBounds::kFormBytes)
      return refuse(param,
                    fmt::format("{} has more than {} bytes", param, RequestBounds::kFormBytes));
  }
  return MaybeForm(StructuredOutput{
      .kind = Kind::kChoice, .choices = std::move(texts), .param = std::string(param)});
}

using Reader = Result<MaybeForm> (*)(const json::value&, std::string_view param);

struct FormField {
  std::string_view name;
  Reader read;
};

Result<MaybeForm> regex_form(const json::value& value, std::string_view param) {
  return text_form(Kind::kRegex, value, param);
}

Result<MaybeForm> json_object_form(const json::value& value, std::string_view param) {
  if (!value.is_bool()) return wrong_type(param, "true or false", value);
  if (!value.get_bool()) return MaybeForm();
  return make_form(Kind::kJsonObject, "", param);
}

// The object is read from the text of the body later, as schemas are. vLLM's clients send its text.
Result<MaybeForm> structural_tag_form(const json::value& tag, std::string_view param) {
  if (tag.is_string()) return make_form(Kind::kRules, std::string(view(tag.get_string())), param);
  if (!tag.is_object()) return wrong_type(param, "a structural tag: an object or its text", tag);
  return make_form(Kind::kRules, "", param);
}

// Reads {"type": …} of OpenAI's two dialects and of Anthropic's. `named` contains the description
// of a schema.
Result<MaybeForm> typed_form(const json::object& format, const json::object* named,
                             const std::string& param) {
  const std::string_view type = text_at(format, "type");
  if (type == "text") return MaybeForm();
  if (type == "json_object") {
    // llama.cpp allows a schema next to the type.
    if (const json::value* schema = format.if_contains("schema"))
      return schema_form(*schema, fmt::format("{}.schema", param));
    return make_form(Kind::kJsonObject, "", param);
  }
  if (type == "structural_tag") return make_form(Kind::kRules, "", param);
  if (type != "json_schema")
    return refuse(fmt::format("{}.type", param),
                  fmt::format("{}.type must be \"text\", \"json_object\", \"json_schema\" or "
                              "\"structural_tag\"",
                              param));
  const std::string inner = named == &format ? param : fmt::format("{}.json_schema", param);
  const json::value* schema = named ? named->if_contains("schema") : nullptr;
  if (!schema)
    return refuse(fmt::format("{}.schema", inner), fmt::format("{}.schema is missing", inner));
  TRY_ASSIGN(MaybeForm form, schema_form(*schema, fmt::format("{}.schema", inner)));
  TRY_ASSIGN(const auto strict, JsonFields(*named, inner).flag("strict"));
  if (strict == false) form->strictness = StructuredOutput::Strictness::kRelaxed;
  return form;
}

Result<MaybeForm> response_format_form(const json::value& value, std::string_view param) {
  if (!value.is_object()) return wrong_type(param, "an object", value);
  const json::object& format = value.get_object();
  const json::value* named = format.if_contains("json_schema");
  return typed_form(format, named ? named->if_object() : nullptr, std::string(param));
}

Result<MaybeForm> flat_format_form(const json::value& value, std::string_view param) {
  if (!value.is_object()) return wrong_type(param, "an object", value);
  return typed_form(value.get_object(), &value.get_object(), std::string(param));
}

// Returns the one of these fields that is present.
Result<MaybeForm> read_one_of(const JsonFields& fields, std::span<const FormField> readers,
                              std::string_view prefix) {
  MaybeForm found;
  for (const FormField& field : readers) {
    const json::value* value = fields.find(field.name);
    if (!value) continue;
    TRY_ASSIGN(MaybeForm form, field.read(*value, fmt::format("{}{}", prefix, field.name)));
    if (!form) continue;
    if (found)
      return refuse(form->param, fmt::format("{} and {} both constrain the answer; expected one",
                                             found->param, form->param));
    found = std::move(form);
  }
  return found;
}

// Reads vLLM's structured_outputs. Its other members change the constraint, or select vLLM's own
// backends.
Result<MaybeForm> structured_outputs_form(const json::value& value, std::string_view param) {
  constexpr auto kReaders = std::to_array<FormField>({{"json", schema_or_text_form},
                                                      {"json_object", json_object_form},
                                                      {"regex", regex_form},
                                                      {"choice", choice_form},
                                                      {"grammar", grammar_form},
                                                      {"structural_tag", structural_tag_form}});
  if (!value.is_object()) return wrong_type(param, "an object", value);
  const JsonFields fields(value.get_object(), std::string(param));
  if (fields.find("whitespace_pattern"))
    return unsupported(fmt::format("{}.whitespace_pattern", param));
  return read_one_of(fields, kReaders, fmt::format("{}.", param));
}

Result<MaybeForm> with_style_and_schema(const JsonFields& fields, MaybeForm form,
                                        std::string_view body) {
  TRY_ASSIGN(const JsonStyle style, read_json_style(fields));
  if (!form) return form;
  form->style = style;
  const bool is_tag = form->kind == Kind::kRules;
  if (form->text.empty() && (is_tag || form->kind == Kind::kJsonSchema)) {
    const std::string_view object = raw_value(body, form->param);
    TRY(check_bytes(object.size(), form->param));
    form->text = object;
  }
  if (!is_tag) return form;
  TRY_ASSIGN(form->rules, structural_tag_rules(std::exchange(form->text, {}), form->param));
  return form;
}

}  // namespace

Result<JsonStyle> read_json_style(const JsonFields& fields) {
  TRY_ASSIGN(const auto own, fields.object("kvik"));
  if (!own) return JsonStyle();
  TRY_ASSIGN(const auto whitespace, own->string("whitespace"));
  TRY_ASSIGN(const auto language, own->string("schema_language"));
  const auto its_whitespace = whitespace_named(whitespace.value_or("spaced"));
  const auto its_language = schema_language_named(language.value_or(""));
  if (!its_whitespace)
    return refuse("kvik.whitespace",
                  "kvik.whitespace must be \"spaced\", \"compact\" or \"flexible\"");
  if (language && !its_language)
    return refuse("kvik.schema_language", "kvik.schema_language must be \"canonical\" or \"full\"");
  return JsonStyle{*its_whitespace, its_language};
}

Result<std::optional<StructuredOutput>> read_answer_form(const JsonFields& fields,
                                                         std::string_view body) {
  constexpr auto kReaders =
      std::to_array<FormField>({{"response_format", response_format_form},
                                {"structured_outputs", structured_outputs_form},
                                {"guided_json", schema_or_text_form},
                                {"guided_regex", regex_form},
                                {"guided_choice", choice_form},
                                {"guided_grammar", grammar_form},
                                {"json_schema", schema_form},
                                {"grammar", grammar_form}});
  if (fields.find("guided_whitespace_pattern")) return unsupported("guided_whitespace_pattern");
  TRY_ASSIGN(MaybeForm form, read_one_of(fields, kReaders, ""));
  return with_style_and_schema(fields, std::move(form), body);
}

Result<std::optional<StructuredOutput>> read_text_form(const JsonFields& fields,
                                                       std::string_view body) {
  TRY_ASSIGN(MaybeForm other, read_answer_form(fields, body));
  TRY_ASSIGN(const auto text, fields.object("text"));
  const json::value* format = text ? text->find("format") : nullptr;
  if (!format) return other;
  TRY_ASSIGN(MaybeForm form, flat_format_form(*format, "text.format"));
  if (!form) return other;
  if (other) {
    return refuse(
        other->param,
        fmt::format("text.format and {} both constrain the answer; expected one", other->param));
  }
  return with_style_and_schema(fields, std::move(form), body);
}

Result<std::optional<StructuredOutput>> read_output_form(const JsonFields& fields,
                                                         std::string_view body) {
  constexpr auto kNewer = std::to_array<FormField>({{"format", flat_format_form}});
  constexpr auto kOlder = std::to_array<FormField>({{"output_format", flat_format_form}});
  TRY_ASSIGN(MaybeForm form, read_one_of(fields, kOlder, ""));
  TRY_ASSIGN(const auto config, fields.object("output_config"));
  if (config) {
    TRY_ASSIGN(MaybeForm newer, read_one_of(*config, kNewer, "output_config."));
    if (newer && form)
      return refuse(
          "output_format",
          "output_config.format and output_format both constrain the answer; expected one");
    if (newer) form = std::move(newer);
  }
  return with_style_and_schema(fields, std::move(form), body);
}

Result<std::optional<StructuredOutput>> read_format_form(const JsonFields& fields,
                                                         std::string_view body) {
  const json::value* format = fields.find("format");
  const json::string* word = format ? format->if_string() : nullptr;
  if (!format || (word && word->empty())) return MaybeForm();
  if (word && view(*word) != "json") {
    return refuse("format", fmt::format("format is \"{}\", expected \"json\" or a JSON schema",
                                        printable(view(*word))));
  }
  if (!word && !format->is_object())
    return wrong_type("format", "\"json\" or a JSON schema", *format);
  TRY_ASSIGN(MaybeForm form,
             word ? make_form(Kind::kJsonObject, "", "format") : schema_form(*format, "format"));
  return with_style_and_schema(fields, std::move(form), body);
}

}  // namespace kvik
