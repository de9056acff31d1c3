#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server_fixture.h"

namespace kvik {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kPath = "/v1/messages";
constexpr const char* kHi = R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]})";

class ServerMessages : public ServerFixture {
 protected:
  void say(std::vector<std::string> pieces, FinishReason reason = FinishReason::kStop,
           std::optional<std::string> stop_string = {}) {
    service.answer_with([=](FakeCall& call) {
      call.begin();
      for (const std::string& piece : pieces) call.send(piece);
      CompletionChunk last;
      last.finish = reason;
      last.stop_string = stop_string;
      call.send(last);
      call.done();
    });
  }

  CompletionRequest request_of(std::string_view body) {
    say({"x"});
    const RawResponse response = client().post(kPath, body);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto call = service.wait_for_call(0);
    return call ? call->request : CompletionRequest{};
  }

  std::string prompt_of(std::string_view body) {
    const CompletionRequest request = request_of(body);
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(request.prompt))
      text += static_cast<char>(id);
    return text;
  }

  // Expects an error in Anthropic's format with this status, and returns its type.
  static std::string error_type(const RawResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    const auto value = json(response.body);
    EXPECT_EQ(string_at(value, "/type"), "error");
    EXPECT_NE(string_at(value, "/error/message"), "");
    EXPECT_NE(response.header("request-id"), "");
    EXPECT_EQ(string_at(value, "/request_id"), response.header("request-id"));
    return string_at(value, "/error/type");
  }
};

TEST_F(ServerMessages, an_answer_has_anthropics_shape) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(kPath, kHi, "anthropic-version: 2023-06-01\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.header("request-id"), "");
  auto value = json(response.body);
  EXPECT_TRUE(string_at(value, "/id").starts_with("msg_"));
  value.as_object()["id"] = "";
  EXPECT_EQ(boost::json::serialize(value),
            R"({"id":"","type":"message","role":"assistant","model":"tiny/model",)"
            R"("content":[{"type":"text","text":"Hello"}],)"
            R"("stop_reason":"end_turn","stop_sequence":null,)"
            R"("usage":{"input_tokens":2,"cache_creation_input_tokens":0,)"
            R"("cache_read_input_tokens":1,"output_tokens":2}})");
}

TEST_F(ServerMessages, a_stream_has_the_events_that_anthropics_clients_expect) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(
      kPath, R"({"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_TRUE(response.header("content-type").starts_with("text/event-stream"));
  const auto events = response.events();
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(string_at(json(events[0]), "/message/role"), "assistant");
  EXPECT_EQ(boost::json::serialize(json(events[0]).at_pointer("/message/usage")),
            R"({"input_tokens":2,"cache_creation_input_tokens":0,)"
            R"("cache_read_input_tokens":1,"output_tokens":0})");
  EXPECT_EQ(events[1], R"({"type":"content_block_start","index":0,)"
                       R"("content_block":{"type":"text","text":""}})");
  EXPECT_EQ(events[2], R"({"type":"content_block_delta","index":0,)"
                       R"("delta":{"type":"text_delta","text":"Hel"}})");
  EXPECT_EQ(string_at(json(events[3]), "/delta/text"), "lo");
  EXPECT_EQ(events[4], R"({"type":"content_block_stop","index":0})");
  EXPECT_EQ(events[5],
            R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},)"
            R"("usage":{"input_tokens":2,"cache_creation_input_tokens":0,)"
            R"("cache_read_input_tokens":1,"output_tokens":2}})");
  EXPECT_EQ(events[6], R"({"type":"message_stop"})");
  // The name of an event is its type.
  EXPECT_TRUE(response.body.starts_with("event: message_start\ndata: {\"type\":\"message_start\""));
}

TEST_F(ServerMessages, an_answer_says_why_it_ended) {
  say({"Hello"}, FinishReason::kLength);
  EXPECT_EQ(string_at(json(client().post(kPath, kHi).body), "/stop_reason"), "max_tokens");
}

TEST_F(ServerMessages, the_matched_stop_sequence_is_reported) {
  say({"Hello"}, FinishReason::kStop, "\nUSER");
  const auto value = json(client().post(kPath, kHi).body);
  EXPECT_EQ(string_at(value, "/stop_reason"), "stop_sequence");
  EXPECT_EQ(string_at(value, "/stop_sequence"), "\nUSER");
}

TEST_F(ServerMessages, reasoning_is_a_separate_block) {
  say({"<think>a", " b</think>", "c"});
  const auto value = json(client().post(kPath, kHi).body);
  EXPECT_EQ(string_at(value, "/content/0/thinking"), "a b");
  EXPECT_EQ(string_at(value, "/content/1/text"), "c");
  const auto events =
      client()
          .post(kPath, R"({"stream":true,"messages":[{"role":"user","content":"Hi"}]})")
          .events();
  ASSERT_EQ(events.size(), 11u);
  EXPECT_EQ(string_at(json(events[2]), "/delta/thinking"), "a");
  EXPECT_EQ(string_at(json(events[4]), "/delta/type"), "signature_delta");
  EXPECT_EQ(string_at(json(events[5]), "/type"), "content_block_stop");
  EXPECT_EQ(json(events[6]).at("index"), 1);
  EXPECT_EQ(string_at(json(events[7]), "/delta/text"), "c");
}

TEST_F(ServerMessages, fields_become_those_of_a_completion) {
  const CompletionRequest request = request_of(
      R"({"model":"tiny/model","max_tokens":7,"stop_sequences":["a","b"],"temperature":0.5,)"
      R"("top_p":0.25,"top_k":3,"metadata":{"user_id":"u"},"n":5,"stop":"ignored",)"
      R"("messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(request.max_tokens, 7u);
  EXPECT_EQ(request.output.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.engine.sampling.temperature, 0.5f);
  EXPECT_EQ(request.engine.sampling.top_p, 0.25f);
  EXPECT_EQ(request.engine.sampling.top_k, 3u);
  EXPECT_EQ(request.engine.tenant, "u");
  EXPECT_EQ(request.n, 1u);
}

TEST_F(ServerMessages, system_and_blocks_reach_the_template) {
  EXPECT_EQ(prompt_of(R"({"system":[{"type":"text","text":"Be"},{"type":"text","text":"brief"}],)"
                      R"("messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},)"
                      R"({"role":"user","content":"there"}]})"),
            "system: Be\nbrief\nuser: Hi\nthere\nassistant:");
}

TEST_F(ServerMessages, tools_their_calls_and_their_results_reach_the_template) {
  EXPECT_EQ(prompt_of(R"({"tools":[{"name":"add","description":"adds","input_schema":{}}],)"
                      R"("tool_choice":{"type":"auto"},)"
                      R"("messages":[{"role":"user","content":"1+2"},)"
                      R"({"role":"assistant","content":[{"type":"text","text":"Well"},)"
                      R"({"type":"tool_use","id":"t1","name":"add","input":{"a":1}}]},)"
                      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",)"
                      R"("content":[{"type":"text","text":"3"}]},{"type":"text","text":"so"}]}]})"),
            "user: 1+2\nassistant: Well\ncall add a=1\ntool: 3\nuser: so\ntool add\nassistant:");
}

TEST_F(ServerMessages, a_last_assistant_message_is_continued) {
  EXPECT_EQ(prompt_of(R"({"messages":[{"role":"user","content":"Hi"},)"
                      R"({"role":"assistant","content":"Well,"}]})"),
            "user: Hi\nassistant: Well,\n");
}

TEST_F(ServerMessages, cache_control_of_a_block_pins_the_prefix) {
  const CompletionRequest request = request_of(
      R"({"system":[{"type":"text","text":"four","cache_control":{"type":"ephemeral","ttl":"1h"}}],)"
      R"("messages":[{"role":"user","content":[{"type":"text","text":"sixsix",)"
      R"("cache_control":{"type":"ephemeral"}},{"type":"text","text":"x"}]}]})");
  ASSERT_EQ(request.engine.pins.size(), 2u);
  EXPECT_EQ(request.engine.pins[0].n_tokens, 4u);
  EXPECT_EQ(request.engine.pins[0].ttl, minutes(60));
  EXPECT_EQ(request.engine.pins[1].n_tokens, 6u);
  EXPECT_EQ(request.engine.pins[1].ttl, minutes(5));
  EXPECT_EQ(request.pin_ttl, std::nullopt);
}

TEST_F(ServerMessages, cache_control_of_the_request_pins_the_whole_prompt) {
  say({"x"});
  const auto value = json(client()
                              .post(kPath, R"({"cache_control":{"type":"ephemeral","ttl":"1h"},)"
                                           R"("messages":[{"role":"user","content":"Hi"}]})")
                              .body);
  EXPECT_EQ(service.wait_for_call()->request.pin_ttl, minutes(60));
  // All computed prompt tokens are reported as written to the cache.
  EXPECT_EQ(boost::json::serialize(value.at("usage")),
            R"({"input_tokens":0,"cache_creation_input_tokens":2,)"
            R"("cache_read_input_tokens":1,"output_tokens":2})");
}

TEST_F(ServerMessages, tokens_are_counted_without_computing_any) {
  const RawResponse response = client().post("/v1/messages/count_tokens",
                                             R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(response.body, R"({"input_tokens":19})");  // "user: Hi\nassistant:"
  EXPECT_EQ(
      error_type(client().post("/v1/messages/count_tokens",
                               R"({"model":"x","messages":[{"role":"user","content":"Hi"}]})"),
                 404),
      "not_found_error");
}

TEST_F(ServerMessages, an_invalid_conversation_is_rejected) {
  for (
      const char* body : {
          R"({)",
          R"([])",
          R"({})",
          R"({"messages":[]})",
          R"({"messages":"x"})",
          R"({"messages":[3]})",
          R"({"messages":[{"role":"tool","content":"x"}]})",
          R"({"messages":[{"role":"user"}]})",
          R"({"messages":[{"role":"user","content":[3]}]})",
          R"({"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})",
          R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
          R"({"messages":[{"role":"user","content":[{"type":"tool_result","content":3}]}]})",
          R"({"messages":[{"role":"assistant","content":[{"type":"tool_use"}]}]})",
          R"({"system":3,"messages":[{"role":"user","content":"x"}]})",
          R"({"system":[{"type":"image"}],"messages":[{"role":"user","content":"x"}]})",
          R"({"stop_sequences":"x","messages":[{"role":"user","content":"x"}]})",
          R"({"stop_sequences":[""],"messages":[{"role":"user","content":"x"}]})",
          R"({"tools":3,"messages":[{"role":"user","content":"x"}]})",
          R"({"tools":[{}],"messages":[{"role":"user","content":"x"}]})",
          R"({"tools":[{"type":"function"}],"messages":[{"role":"user","content":"x"}]})",
          R"({"tool_choice":{"type":"any"},"messages":[{"role":"user","content":"x"}]})",
          R"({"tool_choice":"auto","messages":[{"role":"user","content":"x"}]})",
          R"({"metadata":3,"messages":[{"role":"user","content":"x"}]})",
          R"({"metadata":{"user_id":3},"messages":[{"role":"user","content":"x"}]})",
          R"({"cache_control":{"type":"forever"},"messages":[{"role":"user","content":"x"}]})",
          R"({"cache_control":{"type":"ephemeral","ttl":"1y"},"messages":[{"role":"user","content":"x"}]})",
          R"({"output_config":{"format":{"type":"json_schema"}},"messages":[{"role":"user","content":"x"}]})",
          R"({"max_tokens":-1,"messages":[{"role":"user","content":"x"}]})",
      }) {
    EXPECT_EQ(error_type(client().post(kPath, body), 400), "invalid_request_error") << body;
  }
  expect_alive();
}

TEST_F(ServerMessages, a_conversation_without_anything_in_it_is_refused) {
  const RawResponse response =
      client().post(kPath, R"({"max_tokens":9,"messages":[{"role":"assistant","content":[]}]})");
  EXPECT_EQ(error_type(response, 400), "invalid_request_error");
  expect_alive();
}

TEST_F(ServerMessages, a_fifth_cache_control_is_refused) {
  const std::string part = R"({"type":"text","text":"x","cache_control":{"type":"ephemeral"}})";
  std::string parts = part;
  for (int i = 0; i < 3; ++i) parts += "," + part;
  say({"x"});
  const auto body = [&] { return R"({"messages":[{"role":"user","content":[)" + parts + "]}]}"; };
  EXPECT_EQ(client().post(kPath, body()).status, 200);
  parts += "," + part;
  EXPECT_EQ(error_type(client().post(kPath, body()), 400), "invalid_request_error");
}

TEST_F(ServerMessages, every_error_has_anthropics_shape) {
  options.api_keys = {{.secret = "k"}};
  options.body_limit_bytes = 100;
  const std::string_view key = "x-api-key: k\r\n";
  EXPECT_EQ(error_type(client().post(kPath, kHi), 401), "authentication_error");
  EXPECT_EQ(error_type(client().get(kPath, key), 405), "invalid_request_error");
  EXPECT_EQ(error_type(client().post(kPath, std::string(200, 'x'), key), 413), "request_too_large");
  service.refuse({ErrorCode::kExhausted, "full"});
  const RawResponse full = client().post(kPath, kHi, key);
  EXPECT_EQ(error_type(full, 429), "rate_limit_error");
  EXPECT_EQ(full.header("retry-after"), "1");
  server->stop_accepting();
  EXPECT_EQ(error_type(client().post(kPath, kHi, key), 503), "overloaded_error");
}

TEST_F(ServerMessages, a_stream_that_is_cut_off_ends_in_an_error_event) {
  RawClient c = client();
  c.send_post(kPath, R"({"stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  const auto call = service.wait_for_call();
  ASSERT_NE(call, nullptr);
  call->begin();
  call->send("Hel");
  c.read_until("Hel");
  call->finish(FinishReason::kCancelled);
  const std::string rest = c.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                      "\"overloaded_error\""),
            std::string::npos)
      << rest;
  EXPECT_EQ(rest.find("message_stop"), std::string::npos);
}

TEST_F(ServerMessages, a_silent_stream_is_kept_open_by_pings) {
  options.heartbeat = std::chrono::milliseconds(20);
  RawClient c = client();
  c.send_post(kPath, R"({"stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_NE(c.read_until("event: ping\ndata: {\"type\":\"ping\"}\n\n"), "");
}

TEST_F(ServerMessages, a_client_that_leaves_cancels_its_completion) {
  RawClient c = client();
  c.send_post(kPath, R"({"stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  const auto call = service.wait_for_call();
  ASSERT_NE(call, nullptr);
  c.close();
  EXPECT_TRUE(call->wait_cancelled());
}

constexpr const char* kTools =
    R"("max_tokens":9,"tools":[{"name":"read","description":"R","input_schema":{"type":"object",)"
    R"("properties":{"path":{"type":"string"}}}},{"type":"web_search_20250305","name":"w"}])";

std::string with_tools(const std::string& more) {
  return std::string("{").append(kTools).append(",").append(more).append("}");
}

constexpr const char* kAsk = R"("messages":[{"role":"user","content":"Hi"}])";
constexpr const char* kReadCall =
    "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

TEST_F(ServerMessages, a_call_is_a_block_and_the_reason_to_stop) {
  say({"Well.\n", kReadCall});
  const RawResponse response = client().post(kPath, with_tools(kAsk));
  EXPECT_EQ(response.header("x-kvik-left-out"), "web_search_20250305");
  const auto value = json(response.body);
  EXPECT_EQ(string_at(value, "/stop_reason"), "tool_use");
  EXPECT_EQ(string_at(value, "/content/0/text"), "Well.");
  EXPECT_EQ(string_at(value, "/content/1/type"), "tool_use");
  EXPECT_TRUE(string_at(value, "/content/1/id").starts_with("toolu_"));
  EXPECT_EQ(string_at(value, "/content/1/name"), "read");
  EXPECT_EQ(string_at(value, "/content/1/input/path"), "a");
}

TEST_F(ServerMessages, a_call_is_streamed_as_json_that_adds_up) {
  say({"Well.\n", kReadCall});
  const auto events =
      client().post(kPath, with_tools(std::string(kAsk) + R"(,"stream":true)")).events();
  std::vector<std::string> types;
  std::string input;
  for (const std::string& event : events) {
    const auto value = json(event);
    types.push_back(string_at(value, "/type"));
    input += string_at(value, "/delta/partial_json");
  }
  EXPECT_EQ(types, (std::vector<std::string>{
                       "message_start", "content_block_start", "content_block_delta",
                       "content_block_stop", "content_block_start", "content_block_delta",
                       "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(input, R"({"path": "a"})");
  EXPECT_EQ(string_at(json(events[7]), "/delta/stop_reason"), "tool_use");
}

TEST_F(ServerMessages, lines_that_change_with_every_request_are_dropped) {
  EXPECT_EQ(prompt_of(R"({"max_tokens":9,"system":[{"type":"text",)"
                      R"("text":"x-anthropic-billing-header: cc_version=2.1; cch=17;"},)"
                      R"({"type":"text","text":"Be brief"}],)"
                      R"("messages":[{"role":"user","content":"Hi"},)"
                      R"({"role":"system","content":"Mind"},{"role":"user","content":"so"}]})"),
            "system: Be brief\nuser: Hi\nsystem: Mind\nuser: so\nassistant:");
}

TEST_F(ServerMessages, beta_fields_are_ignored_and_effort_is_read) {
  say({"x"});
  const RawResponse response = client().post(
      kPath, std::string("{\"max_tokens\":9,") + kAsk +
                 R"(,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"},)"
                 R"("context_management":{"edits":[]},"service_tier":"auto","container":null})");
  EXPECT_EQ(response.status, 200) << response.body;
}

TEST_F(ServerMessages, a_prompt_that_is_too_long_has_anthropics_message) {
  const std::string body = std::string(R"({"max_tokens":9,"messages":[{"role":"user","content":")")
                               .append(std::string(300, 'x'))
                               .append("\"}]}");
  const RawResponse response = client().post(kPath, body);
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(string_at(json(response.body), "/error/type"), "invalid_request_error");
  const std::string message = string_at(json(response.body), "/error/message");
  EXPECT_TRUE(message.starts_with("prompt is too long: 3")) << message;
  EXPECT_TRUE(message.ends_with(" tokens > 255 maximum")) << message;
  EXPECT_EQ(client().post("/v1/messages/count_tokens", body).status, 200);
}

TEST_F(ServerMessages, reasoning_is_signed_and_verified) {
  say({"<think>a</think>b"});
  const auto value =
      json(client().post(kPath, std::string("{\"max_tokens\":9,") + kAsk + "}").body);
  const std::string signature = string_at(value, "/content/0/signature");
  EXPECT_EQ(signature.size(), 64u);
  const auto back = [&](const std::string& with) {
    return std::string(R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"},)")
        .append(R"({"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":")")
        .append(with)
        .append(R"("},{"type":"text","text":"b"}]},{"role":"user","content":"so"}]})");
  };
  EXPECT_EQ(client().post(kPath, back(signature)).status, 200);
  EXPECT_EQ(client().post(kPath, back("another server's")).status, 200);
}

TEST_F(ServerMessages, an_error_result_is_marked_in_its_text) {
  EXPECT_EQ(prompt_of(R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
                      R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f",)"
                      R"("input":{}}]},{"role":"user","content":[{"type":"tool_result",)"
                      R"("tool_use_id":"t","is_error":true,"content":"no file"}]}]})"),
            "user: Hi\nassistant: \ncall f\ntool: Error: no file\nassistant:");
}

TEST_F(ServerMessages, an_unknown_path_has_anthropics_error_format) {
  const RawResponse response = client().post("/v1/messages/batches", "{}");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(string_at(json(response.body), "/error/type"), "not_found_error");
}

}  // namespace
}  // namespace kvik
