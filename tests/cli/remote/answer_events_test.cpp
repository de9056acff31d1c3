#include "cli/remote/answer_events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/remote/request_json.h"

namespace kvik {
namespace {

class Recorder final : public CompletionSink {
 public:
  void on_chunk(CompletionChunk chunk) override {
    text += chunk.text;
    for (AnswerPart& part : chunk.parts) append(parts, std::move(part));
    ids.insert(ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
    if (chunk.finish) finish = chunk.finish;
  }
  void on_done(const Usage&) override {}

  std::string text;
  std::vector<AnswerPart> parts;
  std::vector<TokenId> ids;
  std::optional<FinishReason> finish;
};

struct Reader {
  Result<void> read(const std::string& data, int at_ms) {
    return events.read(data, TimePoint() + std::chrono::milliseconds(at_ms), sink);
  }
  Recorder sink;
  AnswerEvents events{TimePoint()};
};

TEST(AnswerEvents, chat_has_reasoning_and_text) {
  Reader reader;
  for (const char* data :
       {R"({"choices": [{"delta": {"role": "assistant", "reasoning_content": "Hm"}}]})",
        R"({"choices": [{"delta": {"reasoning_content": "m."}}]})",
        R"({"choices": [{"delta": {"content": "Yes"}, "finish_reason": null}]})",
        R"({"choices": [{"delta": {}, "finish_reason": "length"}]})"}) {
    ASSERT_TRUE(reader.read(data, 1).has_value()) << data;
  }
  EXPECT_EQ(text_of(reader.sink.parts, AnswerPart::Kind::kReasoning), "Hmm.");
  EXPECT_EQ(text_of(reader.sink.parts, AnswerPart::Kind::kText), "Yes");
  EXPECT_EQ(reader.sink.finish, FinishReason::kLength);
  EXPECT_FALSE(reader.events.is_complete());
  ASSERT_TRUE(reader.read("[DONE]", 2).has_value());
  EXPECT_TRUE(reader.events.is_complete());
}

TEST(AnswerEvents, text_has_tokens_usage_and_times) {
  Reader reader;
  ASSERT_TRUE(reader.read(R"({"choices": [{"text": "a", "token_ids": [5, 6]}]})", 30).has_value());
  ASSERT_TRUE(reader.read(R"({"choices": [{"text": "b", "finish_reason": "stop"}]})", 50));
  ASSERT_TRUE(reader.read(R"({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3,
      "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details":
      {"reasoning_tokens": 1, "accepted_prediction_tokens": 2, "rejected_prediction_tokens": 3}}})",
                          60));
  EXPECT_EQ(reader.sink.text, "ab");
  EXPECT_EQ(reader.sink.ids, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(reader.sink.finish, FinishReason::kStop);
  const Usage& usage = reader.events.usage();
  EXPECT_EQ(usage.prompt_tokens, 9u);
  EXPECT_EQ(usage.completion_tokens, 3u);
  EXPECT_EQ(usage.cached_tokens, 4u);
  EXPECT_EQ(usage.reasoning_tokens, 1u);
  EXPECT_EQ(usage.accepted_tokens, 2u);
  EXPECT_EQ(usage.drafted_tokens, 5u);
  EXPECT_EQ(usage.ttft, std::chrono::milliseconds(30));
  EXPECT_EQ(usage.decode_time, std::chrono::milliseconds(20));
}

TEST(AnswerEvents, error_event_is_the_error) {
  Reader reader;
  const auto read = reader.read(R"({"error": {"message": "it broke", "code": null}})", 1);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().message, "it broke");
  EXPECT_EQ(reader.read("not JSON", 1).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(reader.read("[1]", 1).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(reader.read(R"({"choices": 5})", 1).has_value());
  EXPECT_TRUE(reader.read(R"({"choices": [5]})", 1).has_value());
}

TEST(RequestJson, chat_has_messages_and_settings) {
  ChatRequest chat;
  chat.messages = {text_message("system", "Be brief."), text_message("user", "\"Hi\"")};
  chat.kwargs = {{"enable_thinking", Json{false}}};
  CompletionRequest request;
  request.engine.sampling.temperature = 0;
  request.max_tokens = 7;
  request.seed = 3;
  request.output.stop = {"END"};
  const std::string body = chat_body("m", chat, request);
  for (const char* part :
       {R"("model":"m")", R"("stream":true)", R"({"role":"user","content":"\"Hi\""})",
        R"("chat_template_kwargs":{"enable_thinking":false})", R"("max_completion_tokens":7)",
        R"("seed":3)", R"("stop":["END"])", R"("temperature":0E0)", R"("include_usage":true)"}) {
    EXPECT_NE(body.find(part), std::string::npos) << part << " in " << body;
  }
}

TEST(RequestJson, text_continues_to_the_end_of_the_context_without_a_limit) {
  CompletionRequest request;
  request.prompt = std::vector<TokenId>{1, 2};
  request.form = StructuredOutput{.kind = StructuredOutput::Kind::kRegex, .text = "[a-z]+"};
  const std::string body = completion_body("m", request);
  for (const char* part :
       {R"("prompt":[1,2])", R"("max_tokens":-1)", R"("structured_outputs":{"regex":"[a-z]+"})",
        R"("kvik":{"whitespace":"spaced"})"}) {
    EXPECT_NE(body.find(part), std::string::npos) << part << " in " << body;
  }
}

}  // namespace
}  // namespace kvik
