#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kPath = "/v1/chat/completions";
constexpr const char* kHi = R"({"messages":[{"role":"user","content":"Hi"}]})";

class ServerChat : public ServerFixture {
 protected:
  void say(std::vector<std::string> pieces) {
    service.answer_with([pieces](FakeCall& call) {
      for (const std::string& piece : pieces) call.send(piece);
      call.finish();
      call.done();
    });
  }

  std::string prompt_of(size_t i = 0) {
    const auto call = service.wait_for_call(i);
    if (!call) return "no call";
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(call->request.prompt)) {
      text += static_cast<char>(id);
    }
    return text;
  }
};

TEST_F(ServerChat, an_answer_has_openais_shape) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(kPath, kHi);
  EXPECT_EQ(response.status, 200);
  auto value = json(response.body);
  EXPECT_TRUE(string_at(value, "/id").starts_with("chatcmpl-"));
  EXPECT_EQ(string_at(value, "/object"), "chat.completion");
  EXPECT_EQ(boost::json::serialize(value.at("choices")),
            R"([{"index":0,"logprobs":null,"finish_reason":"stop",)"
            R"("message":{"role":"assistant","content":"Hello","refusal":null}}])");
  EXPECT_EQ(value.at_pointer("/usage/prompt_tokens_details/cached_tokens"), 1);
  EXPECT_EQ(prompt_of(), "user: Hi\nassistant:");
}

TEST_F(ServerChat, a_stream_brings_the_role_the_pieces_a_finish_the_usage_and_done) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(
      kPath,
      R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"include_usage":true}})");
  const auto events = response.events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(string_at(json(events[0]), "/object"), "chat.completion.chunk");
  EXPECT_EQ(boost::json::serialize(json(events[0]).at_pointer("/choices/0/delta")),
            R"({"role":"assistant","content":"Hel"})");
  EXPECT_EQ(string_at(json(events[1]), "/choices/0/delta/content"), "lo");
  EXPECT_EQ(string_at(json(events[2]), "/choices/0/finish_reason"), "stop");
  EXPECT_EQ(string_at(json(events[3]), "/object"), "chat.completion.chunk");
  EXPECT_EQ(json(events[3]).at("choices").as_array().size(), 0u);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(ServerChat, reasoning_is_returned_as_reasoning_content) {
  say({"<thi", "nk>a b", "</th", "ink>\n\nc"});
  const auto value = json(client().post(kPath, kHi).body);
  EXPECT_EQ(string_at(value, "/choices/0/message/reasoning_content"), "a b");
  EXPECT_EQ(string_at(value, "/choices/0/message/content"), "c");
}

TEST_F(ServerChat, reasoning_that_the_template_opened_needs_no_tag) {
  say({"a</think>b"});
  const auto value = json(
      client()
          .post(
              kPath,
              R"({"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"think":true}})")
          .body);
  EXPECT_EQ(string_at(value, "/choices/0/message/reasoning_content"), "a");
  EXPECT_EQ(string_at(value, "/choices/0/message/content"), "b");
}

TEST_F(ServerChat, reasoning_tokens_are_in_the_usage) {
  service.answer_with([](FakeCall& call) {
    Usage usage = FakeCall::usage();
    usage.completion_tokens = 9;
    usage.reasoning_tokens = 7;
    call.finish();
    call.done(usage);
  });
  constexpr const char* kTokens = "/usage/completion_tokens_details/reasoning_tokens";
  EXPECT_EQ(json(client().post(kPath, kHi).body).at_pointer(kTokens), 7);
  EXPECT_EQ(service.wait_for_call(0)->request.output.answer_begin, AnswerBegin::kText);
  const auto events =
      client()
          .post(
              kPath,
              R"({"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"think":true},)"
              R"("stream":true,"stream_options":{"include_usage":true}})")
          .events();
  EXPECT_EQ(json(events.at(events.size() - 2)).at_pointer(kTokens), 7);
  EXPECT_EQ(service.wait_for_call(1)->request.output.answer_begin, AnswerBegin::kReasoning);
}

TEST_F(ServerChat, logprobs_of_the_prompt_stand_beside_the_choices) {
  service.answer_with([](FakeCall& call) {
    CompletionChunk chunk;
    chunk.prompt_logprobs = {{}, {{7, -2.5f, 1, "x"}}};
    call.send(chunk);
    call.finish();
    call.done();
  });
  const auto value = json(
      client()
          .post(kPath,
                R"({"messages":[{"role":"user","content":"Hi"}],"prompt_logprobs":0,"echo":true})")
          .body);
  EXPECT_EQ(boost::json::serialize(value.at("prompt_logprobs")),
            R"([null,{"7":{"logprob":-2.5E0,"rank":1,"decoded_token":"x"}}])");
  EXPECT_FALSE(value.at_pointer("/choices/0").as_object().contains("prompt_logprobs"));
  EXPECT_FALSE(service.wait_for_call()->request.output.echo);
  const auto refused = client().post(
      kPath, R"({"messages":[{"role":"user","content":"Hi"}],"prompt_logprobs":0,"stream":true})");
  EXPECT_EQ(expect_error(refused, 400), "prompt_logprobs");
}

TEST_F(ServerChat, text_parts_are_joined) {
  say({"x"});
  client().post(
      kPath,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  EXPECT_EQ(prompt_of(), "user: a\nb\nassistant:");
}

TEST_F(ServerChat, apply_template_gives_the_prompts_text) {
  const RawResponse response = client().post(
      "/apply-template",
      R"({"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":false,"chat_template_kwargs":{"a":1}})");
  EXPECT_EQ(string_at(json(response.body), "/prompt"), "user: Hi\na=1\n");
}

TEST_F(ServerChat, an_invalid_conversation_fails_with_its_field) {
  struct Case {
    const char* body;
    const char* param;
  };
  const Case cases[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"x"})", "messages"},
      {R"({"messages":[3]})", "messages"},
      {R"({"messages":[{"content":"x"}]})", "messages"},
      {R"({"messages":[{"role":"user","content":3}]})", "messages"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":3})", "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":[3]})", "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":[{}]})", "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})", "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":[{"function":{}}]})", "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","function":3}]})",
       "tools"},
      {R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required"})", "tool_choice"},
      {R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":2})", "top_logprobs"},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[]})",
       "chat_template_kwargs"},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"tokenize":0}})",
       "chat_template_kwargs"},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"chat_template":""}})",
       "chat_template_kwargs"},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"refuse":1}})",
       "messages"},
  };
  for (const Case& c : cases) {
    const RawResponse response = client().post(kPath, c.body);
    EXPECT_EQ(response.status, 400) << c.body;
    EXPECT_EQ(string_at(json(response.body), "/error/param"), c.param) << c.body;
  }
  expect_alive();
}

}  // namespace
}  // namespace kvik
