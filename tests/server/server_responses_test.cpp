#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kPath = "/v1/responses";

class ServerResponses : public ServerFixture {
 protected:
  void say(std::vector<std::string> pieces, FinishReason reason = FinishReason::kStop) {
    service.answer_with([=](FakeCall& call) {
      call.begin();
      for (const std::string& piece : pieces) call.send(piece);
      call.finish(reason);
      call.done();
    });
  }

  std::string prompt_of(std::string_view body) {
    say({"x"});
    const RawResponse response = client().post(kPath, body);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto call = service.wait_for_call();
    if (!call) return "no call";
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(call->request.prompt))
      text += static_cast<char>(id);
    return text;
  }
};

TEST_F(ServerResponses, an_answer_has_openais_shape) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(
      kPath, R"({"input":"Hi","instructions":"Be brief","temperature":0.5,"metadata":{"a":"b"}})");
  EXPECT_EQ(response.status, 200) << response.body;
  auto value = json(response.body);
  EXPECT_TRUE(string_at(value, "/id").starts_with("resp_"));
  EXPECT_TRUE(string_at(value, "/output/0/id").starts_with("msg_"));
  EXPECT_GT(value.at("created_at").as_int64(), 1'700'000'000);
  value.as_object()["id"] = "";
  value.as_object()["created_at"] = 0;
  value.at_pointer("/output/0").as_object()["id"] = "";
  EXPECT_EQ(boost::json::serialize(value),
            R"({"id":"","object":"response","created_at":0,"status":"completed",)"
            R"("background":false,"error":null,"incomplete_details":null,"model":"tiny/model",)"
            R"("output":[{"id":"","type":"message","status":"completed","role":"assistant",)"
            R"("content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}],)"
            R"("instructions":"Be brief","max_output_tokens":null,"max_tool_calls":null,)"
            R"("metadata":{"a":"b"},"parallel_tool_calls":true,"previous_response_id":null,)"
            R"("prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"store":true,)"
            R"("temperature":5E-1,"text":{"format":{"type":"text"}},"tool_choice":"auto",)"
            R"("tools":[],"top_p":1E0,"truncation":"disabled","user":null,)"
            R"("usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1},)"
            R"("output_tokens":2,"output_tokens_details":{"reasoning_tokens":0,)"
            R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0},)"
            R"("total_tokens":5}})");
}

TEST_F(ServerResponses, a_stream_has_typed_events_numbered_through) {
  say({"Hel", "lo"});
  const RawResponse response = client().post(kPath, R"({"input":"Hi","stream":true})");
  const auto events = response.events();
  const std::vector<std::string> types = {
      "response.created",           "response.in_progress",
      "response.output_item.added", "response.content_part.added",
      "response.output_text.delta", "response.output_text.delta",
      "response.output_text.done",  "response.content_part.done",
      "response.output_item.done",  "response.completed"};
  ASSERT_EQ(events.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(string_at(json(events[i]), "/type"), types[i]);
    EXPECT_EQ(json(events[i]).at("sequence_number"), i);
    EXPECT_NE(response.body.find("event: " + types[i] + "\n"), std::string::npos);
  }
  EXPECT_EQ(string_at(json(events[0]), "/response/status"), "in_progress");
  EXPECT_EQ(string_at(json(events[2]), "/item/status"), "in_progress");
  EXPECT_EQ(string_at(json(events[4]), "/delta"), "Hel");
  EXPECT_EQ(string_at(json(events[4]), "/item_id"), string_at(json(events[2]), "/item/id"));
  EXPECT_EQ(string_at(json(events[6]), "/text"), "Hello");
  EXPECT_EQ(string_at(json(events[8]), "/item/content/0/text"), "Hello");
  EXPECT_EQ(string_at(json(events[9]), "/response/output/0/content/0/text"), "Hello");
  EXPECT_EQ(json(events[9]).at_pointer("/response/usage/input_tokens_details/cached_tokens"), 1);
}

TEST_F(ServerResponses, an_answer_that_reached_its_limit_is_incomplete) {
  say({"Hello"}, FinishReason::kLength);
  const auto value = json(client().post(kPath, R"({"input":"Hi","max_output_tokens":2})").body);
  EXPECT_EQ(service.wait_for_call()->request.max_tokens, 2u);
  EXPECT_EQ(string_at(value, "/status"), "incomplete");
  EXPECT_EQ(string_at(value, "/incomplete_details/reason"), "max_output_tokens");
  EXPECT_EQ(value.at("max_output_tokens"), 2);
  const auto events = client().post(kPath, R"({"input":"Hi","stream":true})").events();
  EXPECT_EQ(string_at(json(events.back()), "/type"), "response.incomplete");
}

TEST_F(ServerResponses, reasoning_is_a_separate_item) {
  say({"<think>a", " b</think>", "c"});
  const auto value = json(client().post(kPath, R"({"input":"Hi"})").body);
  EXPECT_EQ(string_at(value, "/output/0/type"), "reasoning");
  EXPECT_EQ(string_at(value, "/output/0/content/0/text"), "a b");
  EXPECT_EQ(string_at(value, "/output/1/content/0/text"), "c");
  const auto events = client().post(kPath, R"({"input":"Hi","stream":true})").events();
  EXPECT_EQ(string_at(json(events.at(4)), "/type"), "response.reasoning_text.delta");
  EXPECT_EQ(string_at(json(events.back()), "/response/output/0/content/0/text"), "a b");
}

TEST_F(ServerResponses, reasoning_tokens_are_in_the_usage) {
  service.answer_with([](FakeCall& call) {
    Usage usage = FakeCall::usage();
    usage.reasoning_tokens = 2;
    call.begin();
    call.finish();
    call.done(usage);
  });
  const auto value = json(client().post(kPath, R"({"input":"Hi"})").body);
  EXPECT_EQ(value.at_pointer("/usage/output_tokens_details/reasoning_tokens"), 2);
  const auto events = client().post(kPath, R"({"input":"Hi","stream":true})").events();
  EXPECT_EQ(
      json(events.back()).at_pointer("/response/usage/output_tokens_details/reasoning_tokens"), 2);
}

TEST_F(ServerResponses, logprobs_of_the_prompt_are_a_field_it_does_not_know) {
  say({"x"});
  const auto value = json(client().post(kPath, R"({"input":"Hi","prompt_logprobs":"no"})").body);
  EXPECT_EQ(string_at(value, "/status"), "completed");
}

TEST_F(ServerResponses, items_reach_the_template) {
  EXPECT_EQ(
      prompt_of(R"({"instructions":"Be brief","input":[{"role":"developer","content":"D"},)"
                R"({"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]},)"
                R"({"type":"reasoning","id":"rs_1","summary":[]},)"
                R"({"type":"message","role":"assistant","id":"m","status":"completed",)"
                R"("content":[{"type":"output_text","text":"Yes","annotations":[]}]},)"
                R"({"role":"user","content":"so"}]})"),
      "system: Be brief\nsystem: D\nuser: Hi\nassistant: Yes\nuser: so\nassistant:");
}

TEST_F(ServerResponses, unsupported_fields_are_rejected_by_name) {
  struct Case {
    const char* field;
    const char* param;
  };
  for (const Case& c : {
           Case{R"("input":null)", "input"},
           Case{R"("input":3)", "input"},
           Case{R"("input":[])", "input"},
           Case{R"("input":[3])", "input"},
           Case{R"("input":[{"role":"user"}])", "input"},
           Case{R"("input":[{"role":"king","content":"x"}])", "input"},
           Case{R"("input":[{"role":"user","content":3}])", "input"},
           Case{R"("input":[{"role":"user","content":[{"type":"input_image"}]}])", "input"},
           Case{R"("input":[{"type":"function_call_output","output":"x"}])", "input"},
           Case{R"("input":[{"type":"reasoning"}])", "input"},
           Case{R"("input":[{"type":"function_call","arguments":"{}"}])", "input"},
           Case{R"("input":[{"type":"item_reference","id":"msg_1"}])", "input"},
           Case{R"("input":[{"type":"sculpture"}])", "input"},
           Case{R"("instructions":3)", "instructions"},
           Case{R"("max_output_tokens":-1)", "max_output_tokens"},
           Case{R"("max_tool_calls":0)", "max_tool_calls"},
           Case{R"("truncation":"some")", "truncation"},
           Case{R"("include":["message.output_text.logprobs"])", "include"},
           Case{R"("include":[1])", "include"},
           Case{R"("max_output_tokens":"x")", "max_output_tokens"},
           Case{R"("previous_response_id":"resp_1")", "previous_response_id"},
           Case{R"("conversation":"c")", "conversation"},
           Case{R"("background":"yes")", "background"},
           Case{R"("tools":[{"type":"function"}])", "tools"},
           Case{R"("tools":[{}])", "tools"},
           Case{R"("tool_choice":"perhaps")", "tool_choice"},
           Case{R"("tools":3)", "tools"},
           Case{R"("top_logprobs":2)", "top_logprobs"},
           Case{R"("text":{"format":{"type":"xml"}})", "text.format.type"},
           Case{R"("store":3)", "store"},
           Case{R"("metadata":3)", "metadata"},
           Case{R"("temperature":"hot")", "temperature"},
       }) {
    const std::string more = std::string(c.field).starts_with("\"input\"") ? "" : R"(,"input":"x")";
    const std::string body = std::string("{") + c.field + more + "}";
    EXPECT_EQ(expect_error(client().post(kPath, body), 400), c.param) << body;
  }
  expect_alive();
}

TEST_F(ServerResponses, a_prompt_that_is_too_long_names_input_as_the_field) {
  service.refuse({ErrorCode::kContextLength, "too long", "prompt"});
  const RawResponse response = client().post(kPath, R"({"input":"Hi"})");
  EXPECT_EQ(expect_error(response, 400), "input");
  EXPECT_EQ(string_at(json(response.body), "/error/code"), "context_length_exceeded");
}

TEST_F(ServerResponses, a_stream_that_is_cut_off_fails) {
  RawClient c = client();
  c.send_post(kPath, R"({"input":"Hi","stream":true})");
  const auto call = service.wait_for_call();
  ASSERT_NE(call, nullptr);
  call->begin();
  call->send("Hel");
  c.read_until("\"Hel\"");
  call->finish(FinishReason::kFailed);
  const std::string rest = c.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find("event: response.failed\n"), std::string::npos) << rest;
  EXPECT_NE(rest.find("event: error\n"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("response.completed"), std::string::npos);
}

constexpr const char* kTools =
    R"("tools":[{"type":"function","name":"read","parameters":{"type":"object","properties":)"
    R"({"path":{"type":"string"}}}},{"type":"custom","name":"patch","description":"P."},)"
    R"({"type":"web_search"},{"type":"namespace","name":"n","tools":[]}])";

std::string with_tools(const std::string& more) {
  return std::string("{").append(kTools).append(",").append(more).append("}");
}

constexpr const char* kReadCall =
    "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

TEST_F(ServerResponses, a_call_is_an_item_and_vendors_tools_are_named) {
  say({"Well.\n<tool_", std::string(kReadCall).substr(6)});
  const RawResponse response = client().post(kPath, with_tools(R"("input":"Hi")"));
  EXPECT_EQ(response.header("x-kvik-left-out"), "web_search, namespace");
  const auto value = json(response.body);
  EXPECT_EQ(string_at(value, "/status"), "completed");
  EXPECT_EQ(string_at(value, "/output/0/content/0/text"), "Well.");
  EXPECT_EQ(string_at(value, "/output/1/type"), "function_call");
  EXPECT_EQ(string_at(value, "/output/1/name"), "read");
  EXPECT_EQ(string_at(value, "/output/1/arguments"), R"({"path": "a"})");
  EXPECT_TRUE(string_at(value, "/output/1/call_id").starts_with("call_"));
  EXPECT_EQ(value.as_object().at("output").as_array().size(), 2u);
}

TEST_F(ServerResponses, a_call_is_streamed_in_typed_events) {
  say({kReadCall});
  const auto events = client().post(kPath, with_tools(R"("input":"Hi","stream":true)")).events();
  const std::vector<std::string> types = {"response.created",
                                          "response.in_progress",
                                          "response.output_item.added",
                                          "response.function_call_arguments.delta",
                                          "response.function_call_arguments.done",
                                          "response.output_item.done",
                                          "response.completed"};
  ASSERT_EQ(events.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(string_at(json(events[i]), "/type"), types[i]);
    EXPECT_EQ(json(events[i]).at("sequence_number"), i);
  }
  EXPECT_EQ(string_at(json(events[2]), "/item/arguments"), "");
  EXPECT_EQ(string_at(json(events[3]), "/delta"), R"({"path": "a"})");
  EXPECT_EQ(string_at(json(events[4]), "/arguments"), R"({"path": "a"})");
  EXPECT_EQ(string_at(json(events[5]), "/item/call_id"),
            string_at(json(events[2]), "/item/call_id"));
  EXPECT_EQ(string_at(json(events[6]), "/response/output/0/arguments"), R"({"path": "a"})");
}

TEST_F(ServerResponses, a_custom_tool_gets_text_input) {
  say({"<tool_call>{\"name\": \"patch\", \"arguments\": {\"input\": \"*** a\\n\"}}</tool_call>"});
  const auto value = json(client().post(kPath, with_tools(R"("input":"Hi")")).body);
  EXPECT_EQ(string_at(value, "/output/0/type"), "custom_tool_call");
  EXPECT_EQ(string_at(value, "/output/0/input"), "*** a\n");
  const auto events = client().post(kPath, with_tools(R"("input":"Hi","stream":true)")).events();
  EXPECT_EQ(string_at(json(events.at(3)), "/type"), "response.custom_tool_call_input.delta");
  EXPECT_EQ(string_at(json(events.at(4)), "/input"), "*** a\n");
}

TEST_F(ServerResponses, calls_outputs_and_reasoning_reach_the_template) {
  EXPECT_EQ(
      prompt_of(R"({"input":[{"role":"user","content":"Hi"},)"
                R"({"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm"}]},)"
                R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},)"
                R"({"type":"custom_tool_call","call_id":"c2","name":"g","input":"in"},)"
                R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
                R"({"type":"custom_tool_call_output","call_id":"c2",)"
                R"("output":[{"type":"output_text","text":"two"}]},)"
                R"({"type":"web_search_call","status":"completed"}]})"),
      "user: Hi\nassistant: \ncall f x=1\ncall g input=in\ntool: one\ntool: two\nassistant:");
}

TEST_F(ServerResponses, a_stored_response_is_returned_and_continued) {
  say({"Hello"});
  const auto first = json(client().post(kPath, R"({"input":"Hi","instructions":"I"})").body);
  const std::string id = string_at(first, "/id");
  EXPECT_EQ(json(client().get("/v1/responses/" + id).body), first);
  const auto second =
      json(client().post(kPath, R"({"input":"More","previous_response_id":")" + id + R"("})").body);
  EXPECT_EQ(string_at(second, "/previous_response_id"), id);
  const auto ids = std::get<std::vector<TokenId>>(service.wait_for_call(1)->request.prompt);
  EXPECT_EQ(std::string(ids.begin(), ids.end()),
            "user: Hi\nassistant: Hello\nuser: More\nassistant:");
  const std::string item = string_at(first, "/output/0/id");
  EXPECT_EQ(client()
                .post(kPath, R"({"input":[{"type":"item_reference","id":")" + item +
                                 R"("},{"role":"user","content":"so"}]})")
                .status,
            200);
  RawClient c = client();
  c.send("DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(c.read_until("}").find("\"deleted\":true"), std::string::npos);
  EXPECT_EQ(expect_error(client().get("/v1/responses/" + id), 404), "response_id");
  EXPECT_EQ(
      expect_error(client().post(kPath, R"({"input":"x","previous_response_id":")" + id + R"("})"),
                   400),
      "previous_response_id");
}

TEST_F(ServerResponses, what_is_not_to_be_stored_is_not) {
  say({"Hello"});
  const auto value = json(client().post(kPath, R"({"input":"Hi","store":false})").body);
  EXPECT_EQ(value.at("store"), false);
  EXPECT_EQ(client().get("/v1/responses/" + string_at(value, "/id")).status, 404);
}

TEST_F(ServerResponses, encrypted_reasoning_is_restored) {
  say({"<think>a \u00e9</think>b"});
  const auto value = json(
      client().post(kPath, R"({"input":"Hi","include":["reasoning.encrypted_content"]})").body);
  const std::string sealed = string_at(value, "/output/0/encrypted_content");
  EXPECT_TRUE(sealed.starts_with("kvik1."));
  const auto events =
      client()
          .post(kPath, R"({"input":"Hi","stream":true,"include":["reasoning.encrypted_content"]})")
          .events();
  EXPECT_EQ(string_at(json(events.back()), "/response/output/0/encrypted_content"), sealed);
}

}  // namespace
}  // namespace kvik
