#include "server/dialects/ollama/prompt_template.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

constexpr PromptValues kValues{.system = "Be kind.", .prompt = "Hi", .suffix = ""};

std::string rendered(std::string_view source, const PromptValues& values = kValues) {
  const auto text = render_prompt_template(source, values);
  return text ? *text : "error: " + text.error().message;
}

TEST(PromptTemplate, inserts_the_values) {
  EXPECT_EQ(rendered("{{ .System }}|{{.Prompt}}|{{ .Suffix }}|"), "Be kind.|Hi||");
}

TEST(PromptTemplate, shows_a_part_only_if_its_value_is_not_empty) {
  constexpr const char* kSource =
      "{{ if .System }}S:{{ .System }}\n{{ end }}{{ if .Suffix }}x{{ else }}y{{ end }}";
  EXPECT_EQ(rendered(kSource), "S:Be kind.\ny");
  EXPECT_EQ(rendered(kSource, {.system = "", .prompt = "", .suffix = "z"}), "x");
}

TEST(PromptTemplate, nested_conditions_are_independent) {
  EXPECT_EQ(rendered("{{ if .Suffix }}a{{ if .Prompt }}b{{ end }}{{ else }}c{{ if .Prompt }}d"
                     "{{ end }}{{ end }}"),
            "cd");
}

TEST(PromptTemplate, dashes_remove_the_blanks_next_to_an_action) {
  EXPECT_EQ(rendered("a \n{{- .Prompt -}} \n b"), "aHib");
  EXPECT_EQ(rendered("a {{- /* a remark */ -}} b"), "ab");
}

TEST(PromptTemplate, ends_where_the_response_begins) {
  EXPECT_EQ(rendered("<user>{{ .Prompt }}<bot>{{ .Response }}<end>"), "<user>Hi<bot>");
}

TEST(PromptTemplate, values_are_not_templates) {
  EXPECT_EQ(rendered("{{ .Prompt }}", {.system = "", .prompt = "{{ .System }}", .suffix = ""}),
            "{{ .System }}");
}

TEST(PromptTemplate, names_an_action_that_it_does_not_have) {
  EXPECT_EQ(rendered("{{ range .Messages }}{{ end }}"),
            "error: template: {{ range .Messages }} is not supported here, expected .System, "
            ".Prompt, .Suffix, .Response, if, else or end");
  EXPECT_TRUE(rendered("{{ end }}").starts_with("error: template: {{ end }}"));
  EXPECT_TRUE(rendered("{{ if .Prompt }}{{ else }}{{ else }}{{ end }}").starts_with("error: "));
}

TEST(PromptTemplate, reports_what_is_not_closed) {
  EXPECT_EQ(rendered("{{ .Prompt"), "error: template: a {{ has no }}");
  EXPECT_EQ(rendered("{{ if .Prompt }}"), "error: template: an {{ if }} has no {{ end }}");
}

TEST(PromptTemplate, a_short_template_makes_no_long_prompt) {
  std::string source;
  for (int i = 0; i < 1000; ++i) source += "{{.Prompt}}";
  const std::string prompt(100'000, 'x');
  EXPECT_EQ(rendered(source, {.system = "", .prompt = prompt, .suffix = ""}),
            "error: template: a value is inserted more than 4 times");
}

TEST(PromptTemplate, conditions_are_nested_to_a_limit) {
  std::string source;
  for (int i = 0; i < 100; ++i) source += "{{ if .Prompt }}";
  EXPECT_TRUE(rendered(source).starts_with("error: template: {{ if .Prompt }}"));
}

}  // namespace
}  // namespace kvik
