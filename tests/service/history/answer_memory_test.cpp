#include "service/history/answer_memory.h"

#include <gtest/gtest.h>

#include "base/json/json.h"

namespace kvik {
namespace {

ToolCall call(std::string name, std::string_view arguments) {
  return {.id = {}, .name = std::move(name), .arguments = *parse_json(arguments)};
}

ConversationKey key_of(std::string text, std::vector<ToolCall> calls = {},
                       const AnswerOwner& owner = {.client = "o", .scope = ""},
                       std::string question = "?") {
  const auto before = with_message(conversation_key(owner), text_message("user", question));
  Message message = text_message("assistant", std::move(text));
  for (ToolCall& each : calls) message.parts.push_back(std::move(each));
  return with_message(before, message);
}

RememberedAnswer answer_of(size_t n_tokens) {
  return {.ids = std::vector<TokenId>(n_tokens, 7), .opening = {}, .reasoning = {}};
}

TEST(ConversationKey, is_the_same_for_what_means_the_same) {
  EXPECT_EQ(key_of("hello"), key_of(" hello\n"));
  const ToolCall first = call("f", R"({"a": 1, "b": [true, null, "x"]})");
  const ToolCall second = call("g", "{}");
  EXPECT_EQ(key_of("", {first, second}), key_of("\n", {first, second}));
  EXPECT_EQ(key_of("", {first}), key_of("", {call("f", R"({"b":[true,null,"x"],"a":1.0})")}));
  ToolCall with_id = first;
  with_id.id = "call_1";
  EXPECT_EQ(key_of("", {first}), key_of("", {with_id}));
  const ConversationKey before = conversation_key({.client = "o", .scope = ""});
  Message reasoned = text_message("assistant", "hello");
  reasoned.parts.push_back(ReasoningPart{"because"});
  EXPECT_EQ(with_message(before, reasoned),
            with_message(before, text_message("assistant", "hello")));
}

TEST(ConversationKey, understands_calls_in_the_forms_that_clients_send) {
  const ConversationKey before = conversation_key({.client = "o", .scope = ""});
  const auto with_further = [&](std::string_view fields) {
    Message message = text_message("assistant", "");
    message.further = std::get<Json::Fields>(parse_json(fields)->value);
    return with_message(before, message);
  };
  Message plain = text_message("assistant", "");
  EXPECT_EQ(with_further(R"({"refusal": null, "annotations": [], "audio": null})"),
            with_message(before, plain));
  EXPECT_NE(with_further(R"({"mood": "angry"})"), with_message(before, plain));
  plain.parts.push_back(call("f", R"({"a": 1})"));
  const ConversationKey calling = with_message(before, plain);
  EXPECT_EQ(with_further(R"({"tool_calls": [{"id": "x", "function": {"name": "f",
                             "arguments": {"a": 1}}, "type": "function", "index": 0}]})"),
            calling);
  EXPECT_NE(with_further(R"({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}},
                             "custom": 1}]})"),
            calling);
}

TEST(ConversationKey, is_another_for_what_differs) {
  const std::vector<ConversationKey> keys = {
      key_of("hello"),
      key_of("hello", {}, {.client = "other", .scope = ""}),
      key_of("hello", {}, {.client = "o", .scope = "other"}),
      key_of("hello", {}, {.client = "o", .scope = ""}, "? "),
      key_of("hel lo"),
      key_of(""),
      key_of("hello", {call("f", "{}")}),
      key_of("hello", {call("f", "{}"), call("f", "{}")}),
      key_of("hello", {call("g", "{}")}),
      key_of("hello", {call("f", R"({"a":1})")}),
      key_of("hello", {call("f", R"({"a":"1"})")}),
      key_of("hello", {call("f", R"({"a":[1]})")}),
      key_of("hello", {call("f", R"({"a":[[1]]})")}),
      key_of("hello", {call("f", R"({"a":[1,1]})")}),
      key_of("hello", {call("f", R"("a")")}),
      key_of("hello", {call("f", "{}"), call("g", "{}")}),
      key_of("hello", {call("g", "{}"), call("f", "{}")}),
      key_of("hello", {call("f", "9007199254740992")}),
      key_of("hello", {call("f", "9007199254740993")}),
      key_of("hello", {call("f", "0.5")}),
      key_of("hello", {call("f", "1e400")}),
      key_of("hello", {call("f", "2e400")}),
  };
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  }
}

TEST(AnswerMemory, returns_the_last_answer_of_a_key) {
  AnswerMemory memory(1 << 20);
  EXPECT_EQ(memory.find(key_of("a")), nullptr);
  memory.remember("o", key_of("a"), answer_of(3));
  memory.remember("o", key_of("a"), answer_of(5));
  EXPECT_EQ(memory.find(key_of("a"))->ids.size(), 5u);
}

TEST(AnswerMemory, the_largest_client_loses_what_it_used_least_recently) {
  AnswerMemory memory(8000);
  memory.remember("small", key_of("small"), answer_of(100));
  for (const char* text : {"a", "b", "c", "d", "e", "f"}) {
    memory.remember("large", key_of(text), answer_of(200));
    EXPECT_NE(memory.find(key_of("a")), nullptr);
  }
  EXPECT_EQ(memory.find(key_of("b")), nullptr);
  EXPECT_NE(memory.find(key_of("f")), nullptr);
  for (int i = 0; i < 100; ++i) {
    memory.remember("large", key_of(std::to_string(i)), answer_of(200));
    EXPECT_LE(memory.n_bytes(), 8000u);
  }
  EXPECT_NE(memory.find(key_of("small")), nullptr);
}

TEST(AnswerMemory, an_answer_that_would_fill_it_is_not_remembered) {
  AnswerMemory memory(8000);
  memory.remember("o", key_of("a"), answer_of(1000));
  EXPECT_EQ(memory.find(key_of("a")), nullptr);
  EXPECT_EQ(memory.n_bytes(), 0u);
}

}  // namespace
}  // namespace kvik
