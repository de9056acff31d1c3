#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "server_fixture.h"

namespace kvik {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPath = "/v1/completions";

class ServerCompletions : public ServerFixture {
 protected:
  // Answers every completion with "Hello" in two chunks.
  void answer_hello() {
    service.answer_with([](FakeCall& call) {
      for (uint32_t choice = 0; choice < call.request.n; ++choice) {
        call.send("Hel", choice);
        call.send("lo", choice);
        call.finish(FinishReason::kStop, choice);
      }
      call.done();
    });
  }
};

TEST_F(ServerCompletions, an_answer_has_openais_shape) {
  answer_hello();
  const RawResponse response = client().post(kPath, R"({"prompt":"Hi"})");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "application/json");
  auto value = json(response.body);
  EXPECT_TRUE(string_at(value, "/id").starts_with("cmpl-"));
  EXPECT_GT(value.at("created").as_int64(), 1'700'000'000);
  value.as_object()["id"] = "";
  value.as_object()["created"] = 0;
  EXPECT_EQ(boost::json::serialize(value),
            R"({"id":"","object":"text_completion","created":0,"model":"tiny/model",)"
            R"("choices":[{"index":0,"text":"Hello","logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
            R"("prompt_tokens_details":{"cached_tokens":1},)"
            R"("completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":0,)"
            R"("rejected_prediction_tokens":0}}})");
}

TEST_F(ServerCompletions, a_stream_has_chunks_a_finish_the_usage_and_done) {
  answer_hello();
  const RawResponse response = client().post(
      kPath, R"({"prompt":"Hi","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.header("content-type").starts_with("text/event-stream"));
  EXPECT_NE(response.header("x-request-id"), "");
  const auto events = response.events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(string_at(json(events[0]), "/choices/0/text"), "Hel");
  EXPECT_EQ(string_at(json(events[1]), "/choices/0/text"), "lo");
  EXPECT_TRUE(json(events[1]).at_pointer("/choices/0/finish_reason").is_null());
  EXPECT_TRUE(json(events[1]).at("usage").is_null());
  EXPECT_EQ(string_at(json(events[2]), "/choices/0/finish_reason"), "stop");
  EXPECT_TRUE(json(events[3]).at("choices").as_array().empty());
  EXPECT_EQ(json(events[3]).at_pointer("/usage/prompt_tokens_details/cached_tokens"), 1);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(ServerCompletions, a_stream_without_include_usage_has_none) {
  answer_hello();
  const auto events = client().post(kPath, R"({"prompt":"Hi","stream":true})").events();
  ASSERT_EQ(events.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(json(events[i]).as_object().contains("usage"));
    EXPECT_EQ(json(events[i]).at("choices").as_array().size(), 1u);
  }
}

TEST_F(ServerCompletions, each_piece_is_sent_when_it_comes) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","stream":true})");
  const auto call = service.wait_for_call();
  EXPECT_EQ(c.read_head().status, 200);  // before the first token
  for (const char* text : {"a", "\u00e4\U0001f600", "c"}) {
    call->send(text);
    const std::string event = c.read_until("\n\n");
    EXPECT_NE(event.find(text), std::string::npos) << event;
  }
  call->finish();
  call->done();
  EXPECT_NE(c.read_until("[DONE]"), "");
}

TEST_F(ServerCompletions, empty_chunks_are_not_streamed) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","stream":true,"return_token_ids":true})");
  const auto call = service.wait_for_call();
  call->send("");
  CompletionChunk ids;
  ids.token_ids = {7, 8};
  call->send(ids);
  call->finish(FinishReason::kLength);
  call->done();
  const auto events = c.read_response().events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(boost::json::serialize(json(events[0]).at_pointer("/choices/0/token_ids")), "[7,8]");
  EXPECT_EQ(string_at(json(events[1]), "/choices/0/finish_reason"), "length");
}

TEST_F(ServerCompletions, logprobs_come_in_the_legacy_shape) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","logprobs":2})");
  const auto call = service.wait_for_call();
  EXPECT_EQ(call->request.engine.n_logprobs, 2u);
  CompletionChunk chunk;
  chunk.text = "ab";
  chunk.logprobs.push_back({.token = "a",
                            .bytes = "a",
                            .logprob = -0.5f,
                            .text_offset = 0,
                            .top = {{"a", -0.5f}, {"x", -1.5f}, {"a", -9.0f}}});
  chunk.logprobs.push_back({.token = "b",
                            .bytes = "b",
                            .logprob = -std::numeric_limits<float>::infinity(),
                            .text_offset = 1,
                            .top = {}});
  call->send(chunk);
  call->finish();
  call->done();
  const auto value = json(c.read_response().body);
  EXPECT_EQ(boost::json::serialize(value.at_pointer("/choices/0/logprobs")),
            R"({"tokens":["a","b"],"token_logprobs":[-5E-1,-9.999E3],)"
            R"("top_logprobs":[{"a":-5E-1,"x":-1.5E0},{}],"text_offset":[0,1]})");
}

// lm-eval and other clients skip the first token because its logprob is null.
TEST_F(ServerCompletions, first_token_of_an_echo_has_no_logprob) {
  service.answer_with([](FakeCall& call) {
    CompletionChunk chunk;
    chunk.text = "ab";
    chunk.logprobs.push_back(
        {.token = "a", .bytes = "a", .logprob = std::nullopt, .text_offset = 0, .top = {}});
    chunk.logprobs.push_back(
        {.token = "b", .bytes = "b", .logprob = -0.5f, .text_offset = 1, .top = {{"b", -0.5f}}});
    call.send(chunk);
    call.finish();
    call.done();
  });
  const char* expected = R"({"tokens":["a","b"],"token_logprobs":[null,-5E-1],)"
                         R"("top_logprobs":[null,{"b":-5E-1}],"text_offset":[0,1]})";
  const auto whole = json(client().post(kPath, R"({"prompt":"a","echo":true,"logprobs":1})").body);
  EXPECT_EQ(boost::json::serialize(whole.at_pointer("/choices/0/logprobs")), expected);
  const auto events =
      client().post(kPath, R"({"prompt":"a","echo":true,"logprobs":1,"stream":true})").events();
  EXPECT_EQ(boost::json::serialize(json(events.at(0)).at_pointer("/choices/0/logprobs")), expected);
}

TEST_F(ServerCompletions, logprobs_of_the_prompt_come_in_vllms_shape_with_every_choice) {
  service.answer_with([](FakeCall& call) {
    const bool is_first = std::get<std::string>(call.request.prompt) == "a";
    CompletionChunk chunk;
    chunk.prompt_logprobs = {{}, {{7, -2.5f, 9, "x"}, {5, -0.5f, 1, "\u00e9"}}};
    if (!is_first) chunk.prompt_logprobs = {{}};
    call.finish(FinishReason::kStop, 1);  // the second choice may be the first to end
    call.send(chunk);
    call.finish(FinishReason::kStop, 0);
    call.done();
  });
  const auto value =
      json(client().post(kPath, R"({"prompt":["a","b"],"n":2,"prompt_logprobs":1})").body);
  EXPECT_EQ(service.wait_for_call()->request.output.n_prompt_logprobs, 1u);
  const auto& choices = value.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(boost::json::serialize(choices[i].at("prompt_logprobs")),
              i < 2 ? R"([null,{"7":{"logprob":-2.5E0,"rank":9,"decoded_token":"x"},)"
                      "\"5\":{\"logprob\":-5E-1,\"rank\":1,\"decoded_token\":\"\u00e9\"}}]"
                    : "[null]");
  }
}

TEST_F(ServerCompletions, logprobs_of_the_prompt_are_not_there_unless_asked_for) {
  answer_hello();
  const auto value = json(client().post(kPath, R"({"prompt":"a"})").body);
  EXPECT_FALSE(value.at_pointer("/choices/0").as_object().contains("prompt_logprobs"));
}

TEST_F(ServerCompletions, logprobs_of_the_prompt_that_cannot_be_given_are_refused_by_name) {
  for (const char* field :
       {R"("prompt_logprobs":1,"stream":true)", R"("prompt_logprobs":0,"stream":true)",
        R"("prompt_logprobs":21)", R"("prompt_logprobs":-1)", R"("prompt_logprobs":true)"}) {
    const std::string body = std::string(R"({"prompt":"a",)") + field + "}";
    EXPECT_EQ(expect_error(client().post(kPath, body), 400), "prompt_logprobs") << body;
  }
}

TEST_F(ServerCompletions, several_prompts_are_several_choices_numbered_through) {
  service.answer_with([](FakeCall& call) {
    for (uint32_t choice = 0; choice < call.request.n; ++choice) {
      call.send(std::get<std::string>(call.request.prompt) + std::to_string(choice), choice);
      call.finish(FinishReason::kStop, choice);
    }
    call.done();
  });
  const auto value = json(client().post(kPath, R"({"prompt":["a","b"],"n":2})").body);
  const auto& choices = value.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  const char* texts[] = {"a0", "a1", "b0", "b1"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].at("index"), i);
    EXPECT_EQ(string_at(choices[i], "/text"), texts[i]);
  }
  EXPECT_EQ(value.at_pointer("/usage/prompt_tokens"), 6);
}

TEST_F(ServerCompletions, if_one_prompt_is_rejected_the_others_are_canceled) {
  service.refuse({ErrorCode::kExhausted, "the queue is full"}, 1);
  const RawResponse refused = client().post(kPath, R"({"prompt":["a","b"]})");
  expect_error(refused, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_TRUE(service.wait_for_call(0)->wait_cancelled());
}

TEST_F(ServerCompletions, errors_of_the_service_keep_their_param_and_get_their_status) {
  const std::pair<ErrorCode, int> statuses[] = {
      {ErrorCode::kInvalidArgument, 400}, {ErrorCode::kContextLength, 400},
      {ErrorCode::kUnsupported, 400},     {ErrorCode::kNotFound, 404},
      {ErrorCode::kExhausted, 429},       {ErrorCode::kUnavailable, 503},
      {ErrorCode::kCorrupt, 500},         {ErrorCode::kIo, 500}};
  for (const auto& [code, status] : statuses) {
    service.refuse({code, "this is why", "model"});
    const RawResponse response = client().post(kPath, R"({"prompt":"Hi","stream":true})");
    EXPECT_EQ(expect_error(response, status), "model");
    const std::string answered = string_at(json(response.body), "/error/code");
    if (code == ErrorCode::kContextLength) {
      EXPECT_EQ(answered, "context_length_exceeded");
    }
    if (code == ErrorCode::kNotFound) {
      EXPECT_EQ(answered, "model_not_found");
    }
  }
}

TEST_F(ServerCompletions, a_failure_in_the_middle_of_a_stream_is_an_error_event) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","stream":true})");
  const auto call = service.wait_for_call();
  call->send("a");
  call->finish(FinishReason::kFailed);
  call->done();
  const auto events = c.read_response().events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(string_at(json(events[1]), "/error/type"), "server_error");
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(ServerCompletions, a_failure_before_a_whole_answer_is_an_error) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi"})");
  const auto call = service.wait_for_call();
  call->finish(FinishReason::kFailed);
  call->done();
  expect_error(c.read_response(), 500);
  EXPECT_TRUE(call->wait_cancelled());
}

TEST_F(ServerCompletions, a_silent_stream_sends_comments) {
  options.heartbeat = milliseconds(20);
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","stream":true})");
  const auto call = service.wait_for_call();
  EXPECT_NE(c.read_until(": keep-alive\n\n"), "");
  EXPECT_NE(c.read_until(": keep-alive\n\n"), "");
  call->send("a");
  EXPECT_NE(c.read_until("\"a\""), "");
}

TEST_F(ServerCompletions, a_stream_leaves_the_connection_usable) {
  answer_hello();
  RawClient c = client();
  EXPECT_EQ(c.post(kPath, R"({"prompt":"Hi","stream":true})").events().size(), 4u);
  EXPECT_EQ(c.post(kPath, R"({"prompt":"Hi","stream":true})").events().size(), 4u);
  EXPECT_EQ(c.get("/health").status, 200);
}

TEST_F(ServerCompletions, a_request_pipelined_after_a_stream_waits_for_its_end) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi","stream":true})");
  c.send("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto call = service.wait_for_call();
  call->send("a");
  call->finish();
  call->done();
  EXPECT_EQ(c.read_response().events().size(), 3u);
  EXPECT_EQ(c.read_response().body, R"({"version":"0"})");
}

TEST_F(ServerCompletions, http_1_0_streams_until_the_connection_ends) {
  answer_hello();
  RawClient c = client();
  c.send("POST /v1/completions HTTP/1.0\r\nContent-Length: 29\r\n\r\n" +
         std::string(R"({"prompt":"Hi","stream":true})"));
  const RawResponse response = c.read_response();
  EXPECT_EQ(response.header("transfer-encoding"), "");
  EXPECT_EQ(response.events().size(), 4u);
}

TEST_F(ServerCompletions, a_large_prompt_is_taken_whole) {
  RawClient c = client();
  const std::string prompt(3 << 20, 'a');
  c.send_post(kPath, R"({"prompt":")" + prompt + "\"}");
  const auto call = service.wait_for_call();
  EXPECT_EQ(std::get<std::string>(call->request.prompt), prompt);
  call->finish();
  call->done();
  EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(ServerCompletions, a_wrong_body_is_400_and_the_connection_stays_open) {
  RawClient c = client();
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"prompt\":\"\xff\"}"),
        std::string(R"({"prompt":"a","temperature":NaN})"),
        std::string(R"({"prompt":"a","temperature":1e999})"), std::string(R"({"prompt":"\ud800"})"),
        std::string(100'000, '['),
        "{\"prompt\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"})
    expect_error(c.post(kPath, body), 400);
  EXPECT_EQ(expect_error(c.post(kPath, R"({"prompt":"a","n":"b"})"), 400), "n");
  expect_alive();
}

TEST_F(ServerCompletions, a_form_that_takes_long_is_compiled_by_a_thread_of_low_priority) {
  service.answer_with([](FakeCall& call) {
    call.finish();
    call.done();
  });
  for (const char* expression : {"short", "long", "short"}) {
    const std::string form = std::string(R"(,"guided_regex":")") + expression + "\"}";
    EXPECT_EQ(client().post("/v1/completions", R"({"prompt":"Hi")" + form).status, 200);
  }
  const std::vector<int> nice = service.nice_values();
  ASSERT_EQ(nice.size(), 3u);
  EXPECT_GT(nice[1], nice[0]);
  EXPECT_EQ(nice[2], nice[0]);
}

TEST_F(ServerCompletions, an_invalid_constraint_is_rejected_at_once) {
  const RawResponse response =
      client().post("/v1/completions", R"({"prompt":"Hi","guided_regex":"refused"})");
  EXPECT_EQ(expect_error(response, 400), "guided_regex");
  EXPECT_EQ(service.n_calls(), 0u);
  EXPECT_TRUE(service.nice_values().empty()) << "complete() would compile it again";
}

}  // namespace
}  // namespace kvik
