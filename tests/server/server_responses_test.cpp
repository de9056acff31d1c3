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
            R"("instructions":"Be brief","max_output_tokens":null,"metadata":{"a":"b"},)"
            R"("parallel_tool_calls":true,"previous_response_id":null,"store":false,)"
            R"("temperature":5E-1,"text":{"format":{"type":"text"}},"tool_choice":"auto",)"
            R"("tools":[],"top_p":1E0,"truncation":"disabled","user":null,)"
            R"("usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1},)"
            R"("output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},)"
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

TEST_F(ServerResponses, thoughts_are_an_item_of_their_own) {
  say({"<think>a", " b</think>", "c"});
  const auto value = json(client().post(kPath, R"({"input":"Hi"})").body);
  EXPECT_EQ(string_at(value, "/output/0/type"), "reasoning");
  EXPECT_EQ(string_at(value, "/output/0/content/0/text"), "a b");
  EXPECT_EQ(string_at(value, "/output/1/content/0/text"), "c");
  const auto events = client().post(kPath, R"({"input":"Hi","stream":true})").events();
  EXPECT_EQ(string_at(json(events.at(4)), "/type"), "response.reasoning_text.delta");
  EXPECT_EQ(string_at(json(events.back()), "/response/output/0/content/0/text"), "a b");
}

TEST_F(ServerResponses, the_tokens_of_thoughts_are_told_in_the_usage) {
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

TEST_F(ServerResponses, what_can_not_be_had_is_refused_with_its_field) {
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
           Case{R"("instructions":3)", "instructions"},
           Case{R"("max_output_tokens":-1)", "max_output_tokens"},
           Case{R"("max_output_tokens":"x")", "max_output_tokens"},
           Case{R"("previous_response_id":"resp_1")", "previous_response_id"},
           Case{R"("conversation":"c")", "conversation"},
           Case{R"("background":true)", "background"},
           Case{R"("tools":[{"type":"web_search"}])", "tools"},
           Case{R"("tools":3)", "tools"},
           Case{R"("top_logprobs":2)", "top_logprobs"},
           Case{R"("text":{"format":{"type":"json_object"}})", "text.format"},
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

TEST_F(ServerResponses, a_prompt_that_is_too_long_blames_the_input) {
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

}  // namespace
}  // namespace kvik
