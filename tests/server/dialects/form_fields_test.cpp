#include "server/dialects/form_fields.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "service/request_bounds.h"

// Structured output in the fields of each dialect.
namespace kvik {
namespace {

using Kind = StructuredOutput::Kind;
using Read = Result<std::optional<StructuredOutput>> (*)(const JsonFields&, std::string_view);

Result<std::optional<StructuredOutput>> read(Read reader, const std::string& fields) {
  const std::string text = "{" + fields + "}";
  const auto body = boost::json::parse(text);
  return reader(JsonFields(body.get_object()), text);
}

// Returns the constraint of a request with these fields, which must have one.
StructuredOutput form_of(const std::string& fields, Read reader = read_answer_form) {
  const auto form = read(reader, fields);
  EXPECT_TRUE(form.has_value()) << fields;
  EXPECT_TRUE(form && *form) << fields;
  return form && *form ? **form : StructuredOutput();
}

bool is_any_text(const std::string& fields, Read reader = read_answer_form) {
  const auto form = read(reader, fields);
  EXPECT_TRUE(form.has_value()) << fields;
  return form && !*form;
}

std::string refused_param(const std::string& fields, Read reader = read_answer_form) {
  const auto form = read(reader, fields);
  EXPECT_FALSE(form.has_value()) << fields;
  return form ? "" : form.error().param;
}

TEST(FormFields, without_one_an_answer_is_any_text) {
  EXPECT_TRUE(is_any_text(""));
  EXPECT_TRUE(is_any_text(R"("response_format":null)"));
  EXPECT_TRUE(is_any_text(R"("response_format":{"type":"text"})"));
  EXPECT_TRUE(is_any_text(R"("grammar":"","guided_json":null,"structured_outputs":{})"));
  EXPECT_TRUE(is_any_text(R"("text":{"verbosity":"low"})", read_text_form));
  EXPECT_TRUE(is_any_text(R"("output_config":{"effort":"high"})", read_output_form));
}

TEST(FormFields, openais_chats_ask_for_objects_and_schemas) {
  const StructuredOutput object = form_of(R"("response_format":{"type":"json_object"})");
  EXPECT_EQ(object.kind, Kind::kJsonObject);
  EXPECT_EQ(object.param, "response_format");
  const StructuredOutput schema = form_of(
      R"("response_format":{"type":"json_schema","json_schema":
         {"name":"x","schema":{"type":"object","required":["b","a"]},"strict":true}})");
  EXPECT_EQ(schema.kind, Kind::kJsonSchema);
  EXPECT_EQ(schema.text, R"({"type":"object","required":["b","a"]})");
  EXPECT_EQ(schema.param, "response_format.json_schema.schema");
  EXPECT_EQ(schema.strictness, StructuredOutput::Strictness::kStrict);
  EXPECT_EQ(schema.style, JsonStyle());
}

TEST(FormFields, schemas_are_relaxed_only_on_request) {
  const auto strictness = [](const std::string& strict) {
    return form_of(R"("response_format":{"type":"json_schema","json_schema":{"schema":{})" +
                   strict + "}}")
        .strictness;
  };
  EXPECT_EQ(strictness(""), StructuredOutput::Strictness::kStrict);
  EXPECT_EQ(strictness(R"(,"strict":null)"), StructuredOutput::Strictness::kStrict);
  EXPECT_EQ(strictness(R"(,"strict":false)"), StructuredOutput::Strictness::kRelaxed);
}

TEST(FormFields, responses_and_messages_use_their_own_fields) {
  const StructuredOutput text = form_of(
      R"("text":{"format":{"type":"json_schema","name":"x","schema":true}})", read_text_form);
  EXPECT_EQ(text.kind, Kind::kJsonSchema);
  EXPECT_EQ(text.text, "true");
  EXPECT_EQ(text.param, "text.format.schema");
  EXPECT_EQ(form_of(R"("text":{"verbosity":"low"},"guided_regex":"[0-9]+")", read_text_form).text,
            "[0-9]+");
  EXPECT_EQ(form_of(R"("text":{"format":{"type":"text"}},"grammar":"start: \"a\"")", read_text_form)
                .param,
            "grammar");
  EXPECT_EQ(refused_param(R"("text":{"format":{"type":"json_object"}},"guided_regex":"a")",
                          read_text_form),
            "guided_regex");
  const std::string format = R"({"type":"json_schema","schema":{"type":"null"}})";
  const StructuredOutput output =
      form_of(R"("output_config":{"effort":"low","format":)" + format + "}", read_output_form);
  EXPECT_EQ(output.text, R"({"type":"null"})");
  EXPECT_EQ(output.param, "output_config.format.schema");
  EXPECT_EQ(form_of(R"("output_format":)" + format, read_output_form).param,
            "output_format.schema");
}

TEST(FormFields, a_schema_is_kept_as_the_body_has_it) {
  constexpr const char* kSchema = R"({"maximum" : 12345678901234567890123, "multipleOf": 1e-30})";
  for (const char* outer : {R"("guided_json":)", R"("json_schema":)"}) {
    EXPECT_EQ(form_of(std::string(outer) + kSchema).text, kSchema);
  }
  EXPECT_EQ(form_of(std::string(R"("response_format":{"type":"json_schema","json_schema":
                    {"name":"x", "schema" : )") +
                    kSchema + "}}")
                .text,
            kSchema);
}

TEST(FormFields, fields_of_vllm_are_read) {
  EXPECT_EQ(form_of(R"("guided_json":{"type":"string"})").text, R"({"type":"string"})");
  EXPECT_EQ(form_of(R"("guided_json":"{\"type\":\"null\"}")").text, R"({"type":"null"})");
  EXPECT_EQ(form_of(R"("guided_regex":"a+")").kind, Kind::kRegex);
  const StructuredOutput choice = form_of(R"("guided_choice":["yes","no"])");
  EXPECT_EQ(choice.kind, Kind::kChoice);
  EXPECT_EQ(choice.choices, (TextList{"yes", "no"}));
  EXPECT_EQ(form_of(R"("guided_grammar":"root ::= \"a\"")").kind, Kind::kGbnf);
  EXPECT_EQ(form_of(R"("guided_grammar":"start: \"a\"")").kind, Kind::kLark);
  const StructuredOutput regex = form_of(R"("structured_outputs":{"regex":"a+"})");
  EXPECT_EQ(regex.kind, Kind::kRegex);
  EXPECT_EQ(regex.param, "structured_outputs.regex");
  EXPECT_EQ(form_of(R"("structured_outputs":{"json":{}})").kind, Kind::kJsonSchema);
  EXPECT_EQ(form_of(R"("structured_outputs":{"json_object":true})").kind, Kind::kJsonObject);
  EXPECT_EQ(form_of(R"("structured_outputs":{"choice":["a"]})").kind, Kind::kChoice);
  EXPECT_EQ(form_of(R"("structured_outputs":{"grammar":"start: \"a\""})").kind, Kind::kLark);
}

TEST(FormFields, fields_of_llama_cpp_are_read) {
  EXPECT_EQ(form_of(R"("grammar":"root ::= \"a\"")").kind, Kind::kGbnf);
  EXPECT_EQ(form_of(R"("json_schema":{"type":"null"})").text, R"({"type":"null"})");
  const StructuredOutput object =
      form_of(R"("response_format":{"type":"json_object","schema":{"type":"object"}})");
  EXPECT_EQ(object.kind, Kind::kJsonSchema);
  EXPECT_EQ(object.text, R"({"type":"object"})");
}

TEST(FormFields, whitespace_is_a_field_of_our_own) {
  const std::string object = R"("response_format":{"type":"json_object"},"kvik":)";
  EXPECT_EQ(form_of(object + R"({"whitespace":"flexible"})").style.whitespace,
            JsonStyle::Whitespace::kFlexible);
  EXPECT_EQ(form_of(object + R"({"whitespace":"compact"})").style.whitespace,
            JsonStyle::Whitespace::kCompact);
  EXPECT_EQ(form_of(object + R"({"whitespace":"spaced"})").style.whitespace,
            JsonStyle::Whitespace::kSpaced);
  EXPECT_EQ(form_of(object + R"({"schema_language":"full"})").style.language,
            JsonStyle::Language::kFull);
  EXPECT_EQ(form_of(object + R"({"schema_language":"canonical"})").style.language,
            JsonStyle::Language::kCanonical);
  EXPECT_EQ(refused_param(object + R"({"schema_language":"latin"})"), "kvik.schema_language");
  EXPECT_EQ(refused_param(object + R"({"whitespace":"some"})"), "kvik.whitespace");
  EXPECT_EQ(refused_param(object + R"({"whitespace":3})"), "kvik.whitespace");
}

TEST(FormFields, an_invalid_constraint_fails_with_its_field) {
  EXPECT_EQ(refused_param(R"("response_format":"json")"), "response_format");
  EXPECT_EQ(refused_param(R"("response_format":{})"), "response_format.type");
  EXPECT_EQ(refused_param(R"("response_format":{"type":"xml"})"), "response_format.type");
  EXPECT_EQ(refused_param(R"("response_format":{"type":"json_schema"})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(
      refused_param(R"("response_format":{"type":"json_schema","json_schema":{"schema":"x"}})"),
      "response_format.json_schema.schema");
  EXPECT_EQ(refused_param(R"("response_format":{"type":"json_schema","json_schema":
                             {"schema":{},"strict":1}})"),
            "response_format.json_schema.strict");
  EXPECT_EQ(refused_param(R"("text":{"format":{"type":"json_schema"}})", read_text_form),
            "text.format.schema");
  EXPECT_EQ(refused_param(R"("output_config":3)", read_output_form), "output_config");
  EXPECT_EQ(refused_param(R"("grammar":3)"), "grammar");
  EXPECT_EQ(refused_param(R"("guided_choice":[])"), "guided_choice");
  EXPECT_EQ(refused_param(R"("guided_choice":[1])"), "guided_choice");
  EXPECT_EQ(refused_param(R"("guided_regex":["a"])"), "guided_regex");
  EXPECT_EQ(refused_param(R"("guided_whitespace_pattern":" ")"), "guided_whitespace_pattern");
  EXPECT_EQ(refused_param(R"("structured_outputs":{"structural_tag":"x"})"),
            "structured_outputs.structural_tag");
  EXPECT_EQ(refused_param(R"("structured_outputs":{"structural_tag":["x"]})"),
            "structured_outputs.structural_tag");
  EXPECT_EQ(refused_param(R"("structured_outputs":{"whitespace_pattern":"x"})"),
            "structured_outputs.whitespace_pattern");
  EXPECT_EQ(refused_param(R"("response_format":{"type":"structural_tag","structures":[]})"),
            "response_format.structures");
}

TEST(FormFields, a_structural_tag_becomes_the_rules_of_a_grammar) {
  const std::string tag =
      R"({"type":"structural_tag","triggers":["<a"],
          "structures":[{"begin":"<a>","schema":{"const":0.10},"end":"</a>"}]})";
  const StructuredOutput form = form_of("\"response_format\":" + tag);
  EXPECT_EQ(form.kind, Kind::kRules);
  EXPECT_EQ(form.param, "response_format");
  EXPECT_FALSE(form.rules.rules.empty());
  const std::string text = boost::json::serialize(boost::json::string(tag));
  for (const std::string& other : {"\"structured_outputs\":{\"structural_tag\":" + tag + "}",
                                   "\"structured_outputs\":{\"structural_tag\":" + text + "}"}) {
    const StructuredOutput same = form_of(other);
    EXPECT_EQ(same.kind, Kind::kRules);
    EXPECT_EQ(same.param, "structured_outputs.structural_tag");
    EXPECT_EQ(same.rules.rules.size(), form.rules.rules.size());
  }
  EXPECT_EQ(form_of("\"text\":{\"format\":" + tag + "}", read_text_form).param, "text.format");
  EXPECT_EQ(form_of("\"output_config\":{\"format\":" + tag + "}", read_output_form).param,
            "output_config.format");
  EXPECT_EQ(refused_param("\"response_format\":" + tag + R"(,"guided_regex":"a")"), "guided_regex");
}

TEST(FormFields, two_constraints_at_once_are_rejected) {
  EXPECT_EQ(refused_param(R"("response_format":{"type":"json_object"},"guided_regex":"a")"),
            "guided_regex");
  EXPECT_EQ(refused_param(R"("structured_outputs":{"regex":"a","choice":["a"]})"),
            "structured_outputs.choice");
}

TEST(FormFields, a_constraint_that_is_too_long_is_rejected) {
  const std::string text(RequestBounds::kFormBytes + 1, 'a');
  EXPECT_EQ(refused_param(R"("structured_outputs":{"structural_tag":")" + text + "\"}"),
            "structured_outputs.structural_tag");
  EXPECT_EQ(refused_param(R"("response_format":{"type":"structural_tag","x":")" + text + "\"}"),
            "response_format");
  EXPECT_EQ(refused_param(R"("guided_regex":")" + text + "\""), "guided_regex");
  EXPECT_EQ(refused_param(R"("guided_choice":[")" + text + "\"]"), "guided_choice");
  std::string many = "\"a\"";
  for (size_t i = 0; i < RequestBounds::kFormChoices; ++i) many += ",\"a\"";
  EXPECT_EQ(refused_param(R"("guided_choice":[)" + many + "]"), "guided_choice");
}

}  // namespace
}  // namespace kvik
