#include "server/dialects/chat/chat_request.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "service/template_values.h"
#include "template/jinja/runtime.h"

namespace kvik {
namespace {

ChatRequest chat_of(const std::string& messages) {
  const auto body = boost::json::parse(R"({"messages":[)" + messages + "]}");
  auto chat = read_chat_request(JsonFields(body.get_object()));
  EXPECT_TRUE(chat.has_value()) << messages;
  return chat ? *chat : ChatRequest();
}

// Returns a message as a template would write it with `| tojson`.
std::string shown(const std::string& message) {
  const ChatRequest chat = chat_of(message);
  jinja::Runtime runtime({}, 0);
  const auto text = jinja::to_json(runtime, template_value(chat.messages.at(0)), {});
  EXPECT_TRUE(text.has_value());
  return text ? text->bytes() : "";
}

TEST(ChatRequest, a_template_is_given_what_the_client_sent) {
  for (const char* message : {
           R"({"role": "user", "content": "a"})",
           R"({"role": "assistant", "content": null})",
           R"({"role": "assistant"})",
           R"({"role": "tool", "content": "4", "tool_call_id": "c1", "name": "add"})",
           R"({"role": "assistant", "content": "", "reasoning_content": "hm"})",
           R"({"role": "user", "content": "a", "weight": 1.5, "tags": ["x", {"y": null}]})",
           R"({"role": "user", "content": "a", "name": 3, "tool_call_id": null})",
       }) {
    EXPECT_EQ(shown(message), message);
  }
}

TEST(ChatRequest, parts_of_text_become_lines_of_one) {
  EXPECT_EQ(
      shown(R"({"role":"user","content":[{"text":""},{"type":"text","text":"a"},{"text":""}]})"),
      R"({"role": "user", "content": "a\n"})");
  EXPECT_EQ(shown(R"({"role":"user","content":[]})"), R"({"role": "user", "content": ""})");
}

TEST(ChatRequest, calls_have_a_type_and_named_arguments) {
  const std::string message =
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"add","arguments":"{\"b\":1,\"a\":[2.5]}"}}]})";
  const Message typed = chat_of(message).messages.at(0);
  ASSERT_EQ(typed.parts.size(), 1u);
  const auto& call = std::get<ToolCall>(typed.parts[0]);
  EXPECT_EQ(call.name, "add");
  EXPECT_EQ(call.id, "c1");
  EXPECT_EQ(shown(message),
            R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": )"
            R"("function", "function": {"name": "add", "arguments": {"b": 1, "a": [2.5]}}}]})");
}

TEST(ChatRequest, unknown_call_formats_change_only_in_their_arguments) {
  constexpr const char* kHead = R"({"role":"assistant","tool_calls":)";
  const auto calls = [&](const std::string& given) {
    const std::string all = shown(kHead + given + "}");
    constexpr std::string_view kShownHead = R"({"role": "assistant", "tool_calls": )";
    EXPECT_TRUE(all.starts_with(kShownHead));
    return all.substr(kShownHead.size(), all.size() - kShownHead.size() - 1);
  };
  EXPECT_EQ(
      calls(R"([{"function":{"arguments":"{\"a\":1}","name":"f"},"id":"c","type":"function"}])"),
      R"([{"function": {"arguments": {"a": 1}, "name": "f"}, "id": "c", "type": "function"}])");
  EXPECT_EQ(calls(R"([{"name":"f","arguments":"{\"a\":1}"}])"),
            R"([{"name": "f", "arguments": "{\"a\":1}"}])");
  EXPECT_EQ(
      calls(R"([{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}},7])"),
      R"([{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}, 7])");
  EXPECT_EQ(calls("[]"), "[]");
  EXPECT_EQ(calls("null"), "null");
}

}  // namespace
}  // namespace kvik
