// Conversations with tools, rendered by the templates of real models if these are available.

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "service/chat_format.h"
#include "service/tools/call_writer.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;

const std::filesystem::path kTemplates =
    std::filesystem::path(KVIK_SOURCE_DIR).parent_path() / "shared/data/templates";

std::string source_of(const std::string& name) {
  std::ifstream file(kTemplates / (name + ".jinja"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json text(std::string words) { return {std::move(words)}; }

Json tool(const std::string& name) {
  Json::Fields properties = {
      {"path", {Json::Fields{{"type", text("string")}, {"description", text("Where.")}}}},
      {"n", {Json::Fields{{"type", text("integer")}, {"description", text("How many.")}}}},
      {"deep", {Json::Fields{{"type", text("object")}, {"description", text("More.")}}}}};
  Json::Fields parameters = {{"type", text("object")}, {"properties", {std::move(properties)}}};
  Json::Fields function = {{"name", text(name)},
                           {"description", text("Reads.")},
                           {"parameters", {std::move(parameters)}}};
  return {Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}};
}

ToolCall call_of(const std::string& path) {
  Json::Fields inner = {{"a", {Json::List{{int64_t{1}}, {std::string("b \"q\"")}}}}};
  return {.id = "call_" + path,
          .name = "read_file",
          .arguments = {Json::Fields{{"deep", {std::move(inner)}},
                                     {"n", {int64_t{7}}},
                                     {"path", {path + " caf\u00e9\nline"}}}}};
}

json::value canonical(const std::string& arguments) {
  json::error_code error;
  json::value value = json::parse(arguments, error);
  EXPECT_FALSE(error) << arguments;
  return value;
}

struct Model {
  std::string name, format;
  bool writes_tools = true;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class ChatTools : public testing::TestWithParam<Model> {
 protected:
  ChatTools() : tokenizer_(source_of(GetParam().name)), format_(tokenizer_) {}
  void SetUp() override { ASSERT_FALSE(tokenizer_.chat_template().empty()) << GetParam().name; }

  ChatPrompt prompt(const ChatRequest& request) {
    auto made = format_.prompt(request);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return made ? *made : ChatPrompt{};
  }

  ChatRequest asked() {
    ChatRequest request;
    request.messages = {text_message("system", "Be brief."), text_message("user", "Look.")};
    request.tools = {tool("read_file"), tool("other")};
    return request;
  }

  Parts parts_of(const ChatPrompt& prompt, std::string_view answer) {
    AnswerSplitter splitter(prompt.answer_begin, prompt.answer_syntax);
    return splitter.push_last(answer);
  }

  ToyTokenizer tokenizer_;
  ChatFormat format_;
};

TEST_P(ChatTools, tools_reach_the_prompt_and_the_format_is_found) {
  const ChatPrompt made = prompt(asked());
  EXPECT_NE(made.text.find("read_file"), std::string::npos);
  EXPECT_NE(made.text.find("Be brief."), std::string::npos);
  ASSERT_FALSE(made.answer_syntax.calls.empty());
  std::vector<std::string> names;
  for (const ToolFormat* format : made.answer_syntax.calls) names.emplace_back(format->name);
  EXPECT_NE(std::ranges::find(names, GetParam().format), names.end()) << names.front();
  EXPECT_EQ(made.text.find("between <tool_call> and") != std::string::npos,
            !GetParam().writes_tools);
}

// Renders a call and parses it again.
TEST_P(ChatTools, what_the_template_writes_is_read_as_it_was_meant) {
  ChatRequest request = asked();
  const ChatPrompt before = prompt(request);
  const ToolCall call = call_of("a");
  request.messages.push_back({.role = "assistant", .parts = {TextPart{}, call}});
  request.add_generation_prompt = false;
  const std::string all = prompt(request).text;
  ChatRequest without = asked();
  without.add_generation_prompt = false;
  const std::string asked_text = prompt(without).text;
  const size_t at = std::ranges::mismatch(all, asked_text).in1 - all.begin();
  // If the template renders a finished answer differently from the generation prompt, the answer
  // begins at the first difference.
  ChatPrompt plain = before;
  plain.answer_begin = AnswerBegin::kText;
  std::string answer = all.substr(std::min(at, all.size()));
  if (all.starts_with(before.text)) answer = all.substr(before.text.size());
  if (plain.answer_syntax.has_channels) answer = all.substr(all.rfind("assistant") + 9);
  const size_t opening = answer.find("think>\n");
  Parts parts = parts_of(plain, answer);
  std::erase_if(parts, [](const AnswerPart& part) { return part.kind != Kind::kCall; });
  ASSERT_EQ(parts.size(), 1u) << answer << opening;
  EXPECT_EQ(parts[0].name, call.name);
  EXPECT_EQ(canonical(parts[0].text), canonical(to_json(call.arguments)));
}

// Returns whether the template omits the text of a message that has tool calls.
bool drops_words_beside_calls(const std::string& name) {
  constexpr std::string_view kNames[] = {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
                                         "meta-llama-Llama-3.1-8B-Instruct",
                                         "meta-llama-Llama-3.3-70B-Instruct",
                                         "mistralai-Mistral-Nemo-Instruct-2407",
                                         "Mistral-Small-3.2-24B-Instruct-2506",
                                         "ibm-granite-granite-3.3-2B-Instruct",
                                         "LFM2-8B-A1B",
                                         "LFM2.5-Instruct"};
  return std::ranges::count(kNames, name) > 0;
}

TEST_P(ChatTools, several_calls_and_their_results_are_rendered) {
  ChatRequest request = asked();
  request.messages.push_back(
      {.role = "assistant", .parts = {TextPart{"Words"}, call_of("a"), call_of("b")}});
  for (const std::string id : {"a", "b"}) {
    Message result = text_message("tool", "result " + id);
    result.tool_call_id = "call_" + id;
    request.messages.push_back(result);
  }
  const std::string all = prompt(request).text;
  const size_t a = all.find("a caf"), b = all.find("b caf");
  EXPECT_LT(a, b);
  EXPECT_NE(b, all.npos);
  EXPECT_LT(all.find("result a"), all.find("result b"));
  EXPECT_NE(all.find("result b"), all.npos);
  if (!drops_words_beside_calls(GetParam().name)) {
    EXPECT_NE(all.find("Words"), all.npos);
  }
}

TEST_P(ChatTools, a_later_system_message_keeps_its_position) {
  ChatRequest request = asked();
  request.messages.push_back(text_message("assistant", "Two."));
  request.messages.push_back(text_message("system", "Mind the gap."));
  request.messages.push_back(text_message("user", "Three."));
  const std::string all = prompt(request).text;
  EXPECT_LT(all.find("Two."), all.find("Mind the gap."));
  EXPECT_LT(all.find("Mind the gap."), all.find("Three."));
  EXPECT_NE(all.find("Three."), all.npos);
}

// The prompt of a longer conversation must begin with the earlier prompt, so that it is cached.
TEST_P(ChatTools, the_prompt_begins_with_the_one_before_in_a_loop_of_tools) {
  ChatRequest request = asked();
  request.messages.push_back({.role = "assistant", .parts = {TextPart{}, call_of("a")}});
  Message result = text_message("tool", "result");
  result.tool_call_id = "call_a";
  request.messages.push_back(result);
  request.add_generation_prompt = false;
  const std::string first = prompt(request).text;
  request.messages.push_back({.role = "assistant", .parts = {TextPart{}, call_of("b")}});
  const std::string second = prompt(request).text;
  const size_t n = std::ranges::mismatch(first, second).in1 - first.begin();
  EXPECT_GT(n + 40, first.size()) << first.substr(n);
}

// Returns no models if the templates are missing: this project may not redistribute them.
std::vector<Model> models_at_hand() {
  if (!std::filesystem::exists(kTemplates)) return {};
  return {{"Qwen-Qwen2.5-7B-Instruct", "hermes"},
          {"Qwen-QwQ-32B", "hermes"},
          {"Qwen-Qwen3-0.6B", "hermes"},
          {"Qwen3-Coder", "xml"},
          {"Qwen3.5-4B", "xml"},
          {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "xml"},
          {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
          {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
          {"meta-llama-Llama-3.3-70B-Instruct", "llama3"},
          {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
          {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
          {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
          {"unsloth-mistral-Devstral-Small-2507", "mistral"},
          {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3", false},
          {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-v3", false},
          {"deepseek-ai-DeepSeek-V3.2", "deepseek-v3.2"},
          {"deepseek-ai-DeepSeek-V4", "deepseek-v4"},
          {"Kimi-K2-Instruct", "kimi"},
          {"Kimi-K2-Thinking", "kimi"},
          {"GLM-4.6", "glm"},
          {"GLM-4.7-Flash", "glm"},
          {"GLM-5.2", "glm"},
          {"openai-gpt-oss-120b", "harmony"},
          {"google-gemma-4-31B-it", "gemma4"},
          {"ibm-granite-granite-3.3-2B-Instruct", "granite3"},
          {"LFM2-8B-A1B", "lfm2"},
          {"LFM2.5-Instruct", "lfm2"},
          {"google-gemma-2-2b-it", "hermes", false},
          {"microsoft-Phi-3.5-mini-instruct", "hermes", false}};
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatTools, testing::ValuesIn(models_at_hand()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) {
                             return !std::isalnum(static_cast<unsigned char>(c));
                           });
                           return name;
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChatTools);

// A template like that of MiniCPM5, which quotes what XML does not allow.
TEST(ChatFormatTools, parameters_in_attributes_are_read_as_the_template_writes_them) {
  const ToyTokenizer tokenizer(
      R"({% for m in messages %}{{ m.role }}: {{ m.content }}{% for call in m.tool_calls or [] %}
<function name="{{ call.function.name }}">{% for key, value in call.function.arguments.items() %}
{{- '<param name="' ~ key ~ '">' }}
{{- '<![CDATA[' ~ value ~ ']]>' if value is string and '<' in value else value }}</param>
{%- endfor %}</function>{% endfor %}{% endfor %}{{ tools | tojson }})");
  const ChatFormat format(tokenizer);
  ChatRequest request;
  request.messages = {text_message("user", "Look.")};
  request.tools = {tool("f")};
  const auto made = format.prompt(request);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ASSERT_EQ(made->answer_syntax.calls.size(), 1u);
  EXPECT_EQ(made->answer_syntax.calls.front()->name, "minicpm5");
  const Json arguments = {Json::Fields{{"path", text("a < b</param>")}, {"other", text("c")}}};
  const ToolCall call = {.id = "call_1", .name = "f", .arguments = arguments};
  request.messages.push_back({.role = "assistant", .parts = {TextPart{"Yes."}, call}});
  const auto all = format.prompt(request);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  const size_t begin = all->text.find("Yes.");
  const std::string answer = all->text.substr(begin, all->text.rfind("</function>") + 11 - begin);
  const Parts parts = AnswerSplitter(AnswerBegin::kText, made->answer_syntax).push_last(answer);
  ASSERT_EQ(parts.size(), 2u) << answer;
  EXPECT_EQ(parts[1].name, "f");
  EXPECT_EQ(canonical(parts[1].text), canonical(to_json(call.arguments))) << answer;
}

TEST(ChatFormatTools, unknown_roles_are_refused) {
  const ToyTokenizer tokenizer("{% for m in messages %}{{ m.role }}{% endfor %}");
  const ChatFormat format(tokenizer);
  ChatRequest request;
  request.messages = {text_message("king", "x")};
  const auto made = format.prompt(request);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(made.error().message.find("'king'"), std::string::npos);
  request.messages = {text_message("developer", "x")};
  const auto developers = format.prompt(request);
  ASSERT_TRUE(developers.has_value());
  EXPECT_TRUE(developers->text == "system" || developers->text == "user") << developers->text;
}

TEST(ChatFormatTools, without_a_format_tools_that_the_template_does_not_write_are_refused) {
  const ToyTokenizer tokenizer("{% for m in messages %}{{ m.content }}{% endfor %}");
  const ChatFormat format(tokenizer, {.tool_format = "none"});
  ChatRequest request;
  request.messages = {text_message("user", "x")};
  request.tools = {tool("f")};
  const auto made = format.prompt(request);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().param, "tools");
}

TEST(ChatFormatTools, reasoning_options_reach_the_template) {
  const ToyTokenizer tokenizer(
      "{{ messages[0].content }} {{ reasoning_effort }} {{ enable_thinking }} {{ thinking_budget "
      "}}");
  const ChatFormat format(tokenizer);
  ChatRequest request;
  request.messages = {text_message("user", "x")};
  request.thinking = {.effort = "xhigh", .is_enabled = true, .budget_tokens = 9};
  EXPECT_EQ(format.prompt(request)->text, "x high True 9");
  request.kwargs = {{"reasoning_effort", {std::string("own")}}};
  EXPECT_EQ(format.prompt(request)->text, "x own True 9");
}

}  // namespace
}  // namespace kvik
