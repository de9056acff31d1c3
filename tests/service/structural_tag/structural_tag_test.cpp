#include "service/structural_tag/structural_tag.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "service/request_bounds.h"
#include "service/structured_output/grammar_compiler.h"
#include "support/tiny_service.h"

// Structural tags: the texts that each notation and format allows.
namespace kvik {
namespace {

using testing::HasSubstr;

constexpr const char* kStructures = R"({"type": "structural_tag", "structures": [
  {"begin": "<function=add>", "end": "</function>",
   "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
  {"begin": "<function=stop>", "schema": {"const": null}, "end": "</function>"},
  {"begin": "[note]", "schema": "{\"enum\": [\"x\", \"y\"]}", "end": ""}],
  "triggers": ["<function=", "[note"]})";

class StructuralTags : public testing::Test {
 protected:
  Result<CompiledOutputGrammar> compile(std::string_view tag) {
    TRY_ASSIGN(GrammarRules rules, structural_tag_rules(tag, "here"));
    return compiler_.compile({.kind = StructuredOutput::Kind::kRules,
                              .rules = std::move(rules),
                              .style = {JsonStyle::Whitespace::kCompact, {}},
                              .param = "here"});
  }

  // Returns whether the whole text is an answer.
  bool takes(std::string_view tag, std::string_view text) {
    const auto compiled = compile(tag);
    EXPECT_TRUE(compiled.has_value()) << (compiled ? "" : compiled.error().message);
    if (!compiled) return false;
    constrain::GrammarMatcher matcher = compiled->grammar->start();
    const auto n_read = matcher.accept_bytes(text);
    const auto is_complete = matcher.is_complete();
    return n_read && *n_read == text.size() && is_complete && *is_complete;
  }
  bool takes_format(const std::string& format, std::string_view text) {
    return takes(R"({"type": "structural_tag", "format": )" + format + "}", text);
  }

  Error refusal(const std::string& tag) {
    auto compiled = compile(tag);
    EXPECT_FALSE(compiled.has_value()) << tag;
    return compiled ? Error() : std::move(compiled.error());
  }
  Error format_refusal(const std::string& format) {
    return refusal(R"({"format": )" + format + "}");
  }

 private:
  ServiceRig rig_;
  GrammarCompiler compiler_{rig_.tokenizer()};
};

TEST_F(StructuralTags, a_structure_follows_each_trigger) {
  for (const char* text :
       {"", "no tag at all < function=, not yet <function", R"(<function=add>{"a":1}</function>)",
        R"(before<function=add>{"a":-7}</function>between<function=stop>null</function>after)",
        R"([note]"x"[note]"y" and text)", "line\nbreaks <<<function=stop>null</function>\n"}) {
    EXPECT_TRUE(takes(kStructures, text)) << text;
  }
  for (const char* text :
       {"<function=", "a <function=other>", R"(<function=add>{"a":"x"}</function>)",
        R"(<function=add>{"a":1})", "text <function=stop>null</function", R"([note]"z")", "[notes",
        R"(<function=stop>null</function><function=x)"}) {
    EXPECT_FALSE(takes(kStructures, text)) << text;
  }
}

TEST_F(StructuralTags, a_tag_needs_no_text_around_it_and_content_may_contain_triggers) {
  const std::string tag =
      R"({"structures": [{"begin": "[", "schema": {"type": "string"}, "end": "]"}],
                              "triggers": ["["]})";
  EXPECT_TRUE(takes(tag, R"(["a [ b"])"));
  EXPECT_TRUE(takes(tag, R"(x[""]["["]y)"));
  EXPECT_FALSE(takes(tag, R"([""][)"));
}

TEST_F(StructuralTags, free_text_opens_no_reasoning) {
  EXPECT_FALSE(takes(kStructures, "<think>a</think>"));
  EXPECT_FALSE(takes(kStructures, "\n<think>a</think>"));
  EXPECT_TRUE(takes(kStructures, "text <think>a</think>"));
  const std::string own = R"({"type": "tag", "begin": "<think>", "content": {"type": "any_text"},
                              "end": "</think>"})";
  EXPECT_TRUE(takes_format(own, "<think>a < b </thin</think>"));
}

TEST_F(StructuralTags, plain_formats) {
  EXPECT_TRUE(takes_format(R"({"type": "const_string", "value": "a.b"})", "a.b"));
  EXPECT_FALSE(takes_format(R"({"type": "const_string", "value": "a.b"})", "axb"));
  EXPECT_TRUE(takes_format(R"({"type": "json_schema", "json_schema": {"enum": [1]}})", "1"));
  EXPECT_TRUE(takes_format(R"({"type": "json_schema", "json_schema": true, "style": "json",
                               "any_order": false, "indent": null})",
                           "[]"));
  EXPECT_TRUE(takes_format(R"({"type": "regex", "pattern": "a|b."})", "bc"));
  EXPECT_FALSE(takes_format(R"({"type": "regex", "pattern": "a|b."})", "b\n"));
  EXPECT_TRUE(takes_format(R"({"type": "any_text"})", "any\ntext"));
  EXPECT_TRUE(takes_format(R"({"type": "any_text", "excludes": ["no", "n["]})", "on and [n"));
  EXPECT_FALSE(takes_format(R"({"type": "any_text", "excludes": ["no", "n["]})", "is n[1"));
}

TEST_F(StructuralTags, grammars_in_both_languages) {
  // Both have rules of the same names, and one is recursive.
  const std::string both = R"({"type": "sequence", "elements": [
      {"type": "tag", "begin": "[", "end": "]", "content": {"type": "grammar",
       "grammar": "root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"(\" root \")\""}},
      {"type": "grammar", "grammar": "start: item\nitem: /[ab]/ \"!\""}]})";
  EXPECT_TRUE(takes_format(both, "[1,(2,(3)),4]a!"));
  EXPECT_FALSE(takes_format(both, "[1,(2,(3),4]a!"));
  EXPECT_FALSE(takes_format(both, "[1]1!"));
  const Error wrong = format_refusal(R"({"type": "grammar", "grammar": "root ::= x"})");
  EXPECT_THAT(wrong.message, HasSubstr("here.format.grammar: "));
  EXPECT_FALSE(compile(R"({"format": {"type": "grammar", "grammar": ""}})").has_value());
}

TEST_F(StructuralTags, combined_formats) {
  const std::string sequence = R"({"type": "sequence", "elements": [
      {"type": "const_string", "value": "x"}, {"type": "or", "elements": [
        {"type": "const_string", "value": "y"}, {"type": "any_text", "excludes": ["z"]}]}]})";
  EXPECT_TRUE(takes_format(sequence, "xy"));
  EXPECT_TRUE(takes_format(sequence, "xa"));
  EXPECT_FALSE(takes_format(sequence, "xz"));
  const auto repeated = [](const char* type, const char* more) {
    return fmt::format(R"({{"type": "{}", "content": {{"type": "regex", "pattern": "[ab]"}}{}}})",
                       type, more);
  };
  EXPECT_TRUE(takes_format(repeated("optional", ""), ""));
  EXPECT_FALSE(takes_format(repeated("optional", ""), "ab"));
  EXPECT_TRUE(takes_format(repeated("star", ""), "abab"));
  EXPECT_FALSE(takes_format(repeated("plus", ""), ""));
  EXPECT_TRUE(takes_format(repeated("plus", ""), "b"));
  EXPECT_FALSE(takes_format(repeated("repeat", R"(, "min": 2, "max": 3)"), "a"));
  EXPECT_TRUE(takes_format(repeated("repeat", R"(, "min": 2, "max": 3)"), "aba"));
  EXPECT_FALSE(takes_format(repeated("repeat", R"(, "min": 2, "max": 3)"), "abab"));
  EXPECT_TRUE(takes_format(repeated("repeat", R"(, "min": 2, "max": -1)"), "ababab"));
}

TEST_F(StructuralTags, the_content_of_a_tag_ends_where_its_end_first_occurs) {
  const std::string tag = R"({"type": "sequence", "elements": [
      {"type": "tag", "begin": "<a>", "content": {"type": "any_text", "excludes": ["no"]},
       "end": ["aa", "</a>"]},
      {"type": "const_string", "value": "."}]})";
  EXPECT_TRUE(takes_format(tag, "<a>b</a>."));
  EXPECT_TRUE(takes_format(tag, "<a>baa."));
  EXPECT_FALSE(takes_format(tag, "<a>baaa."));
  EXPECT_FALSE(takes_format(tag, "<a>b</a></a>."));
  EXPECT_FALSE(takes_format(tag, "<a>no</a>."));
  const std::string open = R"({"type": "tag", "begin": "<a>", "content": {"type": "any_text"},
                               "end": ""})";
  EXPECT_TRUE(takes_format(open, "<a>anything"));
}

std::string triggered(const std::string& more) {
  return R"({"type": "triggered_tags", "triggers": ["<f"], "tags": [
      {"type": "tag", "begin": "<f1>", "content": {"type": "json_schema", "json_schema": {"const": 1}},
       "end": "</f>"},
      {"begin": "<f2>", "content": {"type": "any_text"}, "end": "</f>"}])" +
         more + "}";
}

TEST_F(StructuralTags, triggered_tags) {
  EXPECT_TRUE(takes_format(triggered(""), "a<f1>1</f>b<f2>any <f text</f>c"));
  EXPECT_TRUE(takes_format(triggered(""), ""));
  EXPECT_FALSE(takes_format(triggered(""), "a<f1>2</f>"));
  const std::string first = triggered(R"(, "at_least_one": true)");
  EXPECT_TRUE(takes_format(first, "<f1>1</f>b<f1>1</f>"));
  EXPECT_FALSE(takes_format(first, "a<f1>1</f>"));
  EXPECT_FALSE(takes_format(first, ""));
  const std::string single = triggered(R"(, "stop_after_first": true)");
  EXPECT_TRUE(takes_format(single, "no tag"));
  EXPECT_TRUE(takes_format(single, "a<f1>1</f>"));
  EXPECT_FALSE(takes_format(single, "a<f1>1</f>b"));
  const std::string one = triggered(R"(, "stop_after_first": true, "at_least_one": true)");
  EXPECT_TRUE(takes_format(one, "<f1>1</f>"));
  EXPECT_FALSE(takes_format(one, ""));
  const std::string excluding = triggered(R"(, "excludes": ["</f>"])");
  EXPECT_TRUE(takes_format(excluding, "a<f1>1</f>b"));
  EXPECT_FALSE(takes_format(excluding, "a</f>b"));
  EXPECT_FALSE(takes_format(excluding, "a</f><f1>1</f>"));
}

TEST_F(StructuralTags, triggered_tags_within_a_tag_end_with_it) {
  const std::string inner = R"({"type": "sequence", "elements": [
      {"type": "tag", "begin": "<all>", "content": )" +
                            triggered("") + R"(, "end": "</all>"},
      {"type": "const_string", "value": "."}]})";
  EXPECT_TRUE(takes_format(inner, "<all></all>."));
  EXPECT_TRUE(takes_format(inner, "<all>a<f1>1</f>b</all>."));
  EXPECT_FALSE(takes_format(inner, "<all>a</all>b</all>."));
  EXPECT_FALSE(takes_format(inner, "<all>a<f1>1</f>."));
}

TEST_F(StructuralTags, tags_with_a_separator) {
  const auto tags = [](const char* more) {
    return fmt::format(R"({{"type": "tags_with_separator", "separator": ", ", "tags": [
        {{"begin": "<", "content": {{"type": "regex", "pattern": "[ab]"}}, "end": ">"}},
        {{"begin": "[", "content": {{"type": "any_text"}}, "end": "]"}}]{}}})",
                       more);
  };
  EXPECT_TRUE(takes_format(tags(""), ""));
  EXPECT_TRUE(takes_format(tags(""), "<a>, [x], <b>"));
  EXPECT_FALSE(takes_format(tags(""), "<a>, "));
  EXPECT_FALSE(takes_format(tags(""), "<a><b>"));
  EXPECT_FALSE(takes_format(tags(R"(, "at_least_one": true)"), ""));
  EXPECT_FALSE(takes_format(tags(R"(, "stop_after_first": true)"), "<a>, <b>"));
  EXPECT_TRUE(takes_format(tags(R"(, "stop_after_first": true)"), "<a>"));
}

// A nested format that is used twice is built once.
TEST_F(StructuralTags, nested_separators_do_not_multiply) {
  std::string format = R"({"type": "const_string", "value": "x"})";
  for (int depth = 0; depth < 40; ++depth) {
    format = R"({"type": "tags_with_separator", "separator": ",", "tags": [
        {"begin": "<", "end": ">", "content": )" +
             format + "}]}";
  }
  const auto rules = structural_tag_rules(R"({"format": )" + format + "}", "here");
  ASSERT_TRUE(rules.has_value());
  EXPECT_LT(n_bytes(*rules), size_t{1} << 20);
}

TEST_F(StructuralTags, a_wrong_value_is_refused_with_its_path) {
  const auto structures = [](const char* one, const char* triggers) {
    return fmt::format(R"({{"structures": [{}], "triggers": {}}})", one, triggers);
  };
  const char* good = R"({"begin": "<a>", "schema": {}, "end": ""})";
  const std::pair<std::string, const char*> cases[] = {
      {"3", "here"},
      {"{", "here"},
      {R"({"type": "structural_tag"})", "here"},
      {R"({"type": "tag", "format": {}})", "here.type"},
      {R"({"format": {"type": "any_text"}, "triggers": ["a"]})", "here"},
      {R"({"structures": [], "triggers": ["<a"]})", "here.structures"},
      {R"({"structures": [1], "triggers": ["<a"]})", "here.structures[0]"},
      {structures(good, "[]"), "here.triggers"},
      {structures(good, "\"<a\""), "here.triggers"},
      {structures(good, R"([""])"), "here.triggers[0]"},
      {structures(good, R"(["<a", 3])"), "here.triggers[1]"},
      {structures(good, R"(["<b"])"), "here.structures[0].begin"},
      {structures(good, R"(["<a", "<b"])"), "here.triggers"},
      {structures(good, R"(["<a", "<a>"])"), "here"},
      {structures(R"({"begin": 1, "schema": {}, "end": ""})", R"(["<a"])"),
       "here.structures[0].begin"},
      {structures(R"({"begin": "<a", "schema": 1, "end": ""})", R"(["<a"])"),
       "here.structures[0].schema"},
      {structures(R"({"begin": "<a", "end": ""})", R"(["<a"])"), "here.structures[0].schema"},
      {structures(R"({"begin": "<a", "schema": {}})", R"(["<a"])"), "here.structures[0].end"},
      {structures(R"({"begin": "<a", "schema": {}, "end": "", "x": 1})", R"(["<a"])"),
       "here.structures[0]"},
      {R"({"format": {"value": "x"}})", "here.format.type"},
      {R"({"format": {"type": "const_string"}})", "here.format.value"},
      {R"({"format": {"type": "any_text", "excludes": "x"}})", "here.format.excludes"},
      {R"({"format": {"type": "or", "elements": []}})", "here.format.elements"},
      {R"({"format": {"type": "or", "elements": [{"type": "x"}]}})",
       "here.format.elements[0].type"},
      {R"({"format": {"type": "repeat", "min": 2, "max": 1, "content": {"type": "any_text"}}})",
       "here.format.max"},
      {R"({"format": {"type": "star", "content": {"type": "any_text"}}})", "here.format.content"},
  };
  for (const auto& [tag, param] : cases) {
    const Error error = refusal(tag);
    EXPECT_EQ(error.param, param) << tag << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr(param)) << tag;
  }
}

TEST_F(StructuralTags, errors_of_schemas_and_expressions_name_their_place) {
  const Error schema = refusal(
      R"({"structures": [{"begin": "<a", "schema": {"type": 3}, "end": ""}], "triggers": ["<a"]})");
  EXPECT_THAT(schema.message, HasSubstr("here.structures[0].schema: #/type"));
  const Error pattern = format_refusal(R"({"type": "regex", "pattern": "a)(b"})");
  EXPECT_THAT(pattern.message, HasSubstr("here.format.pattern: the regular expression"));
}

TEST_F(StructuralTags, formats_that_a_grammar_cannot_express_are_named) {
  for (const char* type : {"qwen_xml_parameter", "any_tokens", "dispatch"}) {
    const Error error = format_refusal(fmt::format(R"({{"type": "{}"}})", type));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr(fmt::format("'{}'", type)));
  }
  const Error style =
      format_refusal(R"({"type": "json_schema", "json_schema": {}, "style": "qwen_xml"})");
  EXPECT_EQ(style.code, ErrorCode::kUnsupported);
  EXPECT_THAT(style.message, HasSubstr("'qwen_xml'"));
}

TEST_F(StructuralTags, limits_are_those_of_other_grammars) {
  std::string many, triggers;
  for (size_t i = 0; i <= RequestBounds::kFormChoices; ++i) {
    many += R"({"begin": "<a>", "schema": {}, "end": ""},)";
  }
  many.pop_back();
  EXPECT_EQ(refusal(R"({"structures": [)" + many + R"(], "triggers": ["<a"]})").param,
            "here.structures");
  for (int i = 0; i < 65; ++i) triggers += fmt::format("\"<{:02}\",", i);
  triggers.pop_back();
  EXPECT_EQ(refusal(R"({"structures": [{"begin": "<01", "schema": {}, "end": ""}], "triggers": [)" +
                    triggers + "]}")
                .param,
            "here.triggers");
  const std::string long_trigger(257, 'a');
  EXPECT_EQ(refusal(fmt::format(R"({{"structures": [{{"begin": "{0}", "schema": {{}}, "end": ""}}],
                                    "triggers": ["{0}"]}})",
                                long_trigger))
                .param,
            "here.triggers[0]");
}

}  // namespace
}  // namespace kvik
