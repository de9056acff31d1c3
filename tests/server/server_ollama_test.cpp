// Ollama's API for generating, chatting and embedding.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kGenerate = "/api/generate";
constexpr const char* kChat = "/api/chat";
constexpr const char* kHi = R"({"model":"tiny/model","messages":[{"role":"user","content":"Hi"}])";
constexpr const char* kTools = R"(,"tools":[{"type":"function","function":{"name":"paint"}}])";

class ServerOllama : public ServerFixture {
 protected:
  void say(std::vector<std::string> pieces, FinishReason reason = FinishReason::kStop) {
    service.answer_with([pieces, reason](FakeCall& call) {
      for (const std::string& piece : pieces) call.send(piece);
      call.finish(reason);
      Usage usage = FakeCall::usage();
      usage.queue_time = std::chrono::milliseconds(2);
      usage.ttft = std::chrono::milliseconds(5);
      usage.decode_time = std::chrono::milliseconds(7);
      call.done(usage);
    });
  }

  boost::json::value whole(const char* path, const std::string& body) {
    const RawResponse response = client().post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.header("content-type"), "application/json");
    return json(response.body);
  }

  std::vector<boost::json::value> stream(const char* path, const std::string& body) {
    const RawResponse response = client().post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.header("content-type"), "application/x-ndjson");
    return lines_of(response.body);
  }

  static std::vector<boost::json::value> lines_of(std::string_view body) {
    std::vector<boost::json::value> lines;
    EXPECT_TRUE(body.ends_with('\n')) << body;
    for (size_t end = body.find('\n'); end != body.npos; end = body.find('\n')) {
      lines.push_back(json(body.substr(0, end)));
      body.remove_prefix(end + 1);
    }
    return lines;
  }

  // Expects Ollama's error, and returns its sentence.
  static std::string expect_sentence(const RawResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.header("content-type"), "application/json");
    const auto value = json(response.body);
    EXPECT_EQ(value.as_object().size(), 1u) << response.body;
    return string_at(value, "/error");
  }
};

TEST_F(ServerOllama, a_whole_generation_has_ollamas_fields) {
  say({"Hel", "lo"});
  const auto value = whole(kGenerate, R"({"model":"tiny/model","prompt":"Hi","stream":false})");
  EXPECT_EQ(string_at(value, "/model"), "tiny/model");
  EXPECT_EQ(string_at(value, "/response"), "Hello");
  EXPECT_EQ(string_at(value, "/done_reason"), "stop");
  EXPECT_TRUE(value.at("done").as_bool());
  EXPECT_EQ(value.at("load_duration").as_int64(), 2'000'000);
  EXPECT_EQ(value.at("prompt_eval_duration").as_int64(), 3'000'000);
  EXPECT_EQ(value.at("eval_duration").as_int64(), 7'000'000);
  EXPECT_GT(value.at("total_duration").as_int64(), 0);
  EXPECT_EQ(value.at("prompt_eval_count").as_int64(), 3);
  EXPECT_EQ(value.at("eval_count").as_int64(), 2);
  EXPECT_EQ(value.at_pointer("/kvik/cached_tokens").as_int64(), 1);
  const std::string created = string_at(value, "/created_at");
  EXPECT_EQ(created.size(), std::string("2026-11-28T04:38:04.123456Z").size()) << created;
  EXPECT_TRUE(created.ends_with('Z'));
}

TEST_F(ServerOllama, a_generation_is_a_stream_of_lines_by_default) {
  say({"Hel", "lo"}, FinishReason::kLength);
  const auto lines = stream(kGenerate, R"({"model":"tiny/model:latest","prompt":"Hi"})");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(string_at(lines[0], "/response"), "Hel");
  EXPECT_FALSE(lines[0].at("done").as_bool());
  EXPECT_EQ(string_at(lines[1], "/response"), "lo");
  EXPECT_EQ(string_at(lines[2], "/response"), "");
  EXPECT_TRUE(lines[2].at("done").as_bool());
  EXPECT_EQ(string_at(lines[2], "/done_reason"), "length");
  EXPECT_EQ(lines[2].at("eval_count").as_int64(), 2);
  EXPECT_EQ(string_at(lines[2], "/model"), "tiny/model:latest");
}

TEST_F(ServerOllama, the_context_holds_the_tokens_of_prompt_and_answer) {
  service.answer_with([](FakeCall& call) {
    CompletionChunk chunk;
    chunk.text = "AB";
    chunk.token_ids = {65, 66};
    call.send(chunk);
    call.finish();
    call.done();
  });
  const std::string body = R"({"prompt":"H","template":"{{.Prompt}}")";
  constexpr const char* kContext = "[1,2,72,65,66]";
  EXPECT_EQ(boost::json::serialize(whole(kGenerate, body + R"(,"stream":false})").at("context")),
            kContext);
  EXPECT_EQ(boost::json::serialize(stream(kGenerate, body + "}").back().at("context")), kContext);
  EXPECT_FALSE(
      stream(kGenerate, R"({"prompt":"H","raw":true})").back().as_object().contains("context"));
}

TEST_F(ServerOllama, reasoning_is_apart_from_the_response) {
  say({"<think>so ", "so</think>", "\n\nyes"});
  const auto value = whole(kGenerate, R"({"prompt":"Hi","stream":false})");
  EXPECT_EQ(string_at(value, "/thinking"), "so so");
  EXPECT_EQ(string_at(value, "/response"), "yes");
  const auto lines = stream(kChat, std::string(kHi) + "}");
  EXPECT_EQ(string_at(lines[0], "/message/thinking"), "so ");
  EXPECT_EQ(string_at(lines[0], "/message/content"), "");
  EXPECT_EQ(string_at(lines[2], "/message/content"), "yes");
}

TEST_F(ServerOllama, a_raw_answer_is_not_split) {
  say({"<think>so</think>yes"});
  const auto value = whole(kGenerate, R"({"prompt":"Hi","raw":true,"stream":false})");
  EXPECT_EQ(string_at(value, "/response"), "<think>so</think>yes");
}

TEST_F(ServerOllama, a_chat_answers_with_a_message) {
  say({"Hel", "lo"});
  const auto value = whole(kChat, std::string(kHi) + R"(,"stream":false})");
  EXPECT_EQ(boost::json::serialize(value.at("message")),
            R"({"role":"assistant","content":"Hello"})");
  EXPECT_EQ(string_at(value, "/done_reason"), "stop");
  const auto lines = stream(kChat, std::string(kHi) + "}");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(boost::json::serialize(lines[0].at("message")),
            R"({"role":"assistant","content":"Hel"})");
  EXPECT_EQ(boost::json::serialize(lines[2].at("message")), R"({"role":"assistant","content":""})");
}

TEST_F(ServerOllama, a_tool_call_has_its_arguments_as_an_object) {
  say({"Look. <tool_call>\n{\"name\": \"paint\", \"arguments\": {\"n\": ", "1.50,\n \"c\": \"a ",
       "\\\" b\"}}\n</tool_call>"});
  const auto check = [](const boost::json::value& value) {
    EXPECT_EQ(string_at(value, "/message/tool_calls/0/function/name"), "paint");
    EXPECT_EQ(value.at_pointer("/message/tool_calls/0/function/index").as_int64(), 0);
    EXPECT_TRUE(string_at(value, "/message/tool_calls/0/id").starts_with("call_"));
    EXPECT_EQ(string_at(value, "/message/tool_calls/0/function/arguments/c"), "a \" b");
    EXPECT_EQ(value.at_pointer("/message/tool_calls/0/function/arguments/n").as_double(), 1.5);
  };
  const RawResponse response =
      client().post(kChat, std::string(kHi) + kTools + R"(,"stream":false})");
  check(json(response.body));
  EXPECT_TRUE(response.body.contains(R"("arguments":{"n":1.50,"c":"a \" b"})")) << response.body;
  EXPECT_EQ(string_at(json(response.body), "/message/content"), "Look.");
  const auto lines = stream(kChat, std::string(kHi) + kTools + "}");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(string_at(lines[0], "/message/content"), "Look.");
  check(lines[1]);
  EXPECT_EQ(string_at(lines[2], "/done_reason"), "stop");
}

TEST_F(ServerOllama, several_calls_come_one_after_the_other) {
  const std::string call = R"(<tool_call>{"name": "paint", "arguments": {}}</tool_call>)";
  say({call + "\n", call});
  const auto value = whole(kChat, std::string(kHi) + kTools + R"(,"stream":false})");
  EXPECT_EQ(value.at_pointer("/message/tool_calls").as_array().size(), 2u);
  EXPECT_EQ(value.at_pointer("/message/tool_calls/1/function/index").as_int64(), 1);
  size_t n_calls = 0;
  for (const auto& line : stream(kChat, std::string(kHi) + kTools + "}")) {
    const auto* calls = line.at("message").as_object().if_contains("tool_calls");
    if (calls) n_calls += calls->as_array().size();
  }
  EXPECT_EQ(n_calls, 2u);
}

TEST_F(ServerOllama, a_line_break_in_an_argument_breaks_no_line) {
  say({"<tool_call>{\"name\": \"paint\", \"arguments\": {\"c\": \"a\nb\\\\\"}}</tool_call>"});
  size_t n_calls = 0;
  for (const auto& line : stream(kChat, std::string(kHi) + kTools + "}")) {
    const auto* calls = line.at("message").as_object().if_contains("tool_calls");
    if (!calls) continue;
    EXPECT_EQ(string_at(*calls, "/0/function/arguments/c"), "a\nb\\");
    ++n_calls;
  }
  EXPECT_EQ(n_calls, 1u);
}

// Calls come whole in streams too, so that this one is text there as well.
TEST_F(ServerOllama, a_call_that_breaks_off_is_text) {
  const std::string text = R"(<tool_call>{"name": "paint", "arguments": {"n": [1, 2], "c": "re)";
  say({text}, FinishReason::kLength);
  const auto value = whole(kChat, std::string(kHi) + kTools + R"(,"stream":false})");
  EXPECT_EQ(string_at(value, "/message/content"), text);
  EXPECT_FALSE(value.at("message").as_object().contains("tool_calls"));
  EXPECT_EQ(string_at(value, "/done_reason"), "length");
  std::string streamed;
  for (const auto& line : stream(kChat, std::string(kHi) + kTools + "}")) {
    streamed += string_at(line, "/message/content");
    EXPECT_FALSE(line.at("message").as_object().contains("tool_calls"));
  }
  EXPECT_EQ(streamed, text);
}

TEST_F(ServerOllama, log_probabilities_come_with_their_pieces) {
  service.answer_with([](FakeCall& call) {
    CompletionChunk chunk;
    chunk.text = "a";
    chunk.logprobs = {{.token = "a", .bytes = "a", .logprob = -0.5f, .top = {{"a", -0.5f}}}};
    call.send(chunk);
    call.finish();
    call.done();
  });
  const std::string body = std::string(kHi) + R"(,"logprobs":true,"top_logprobs":1)";
  constexpr const char* kExpected =
      R"([{"token":"a","logprob":-5E-1,"bytes":[97],)"
      R"("top_logprobs":[{"token":"a","logprob":-5E-1,"bytes":[97]}]}])";
  EXPECT_EQ(boost::json::serialize(whole(kChat, body + R"(,"stream":false})").at("logprobs")),
            kExpected);
  EXPECT_EQ(boost::json::serialize(stream(kChat, body + "}").at(0).at("logprobs")), kExpected);
  EXPECT_EQ(service.wait_for_call(0)->request.engine.n_logprobs, 1u);
}

TEST_F(ServerOllama, no_prompt_loads_and_keep_alive_zero_unloads) {
  EXPECT_EQ(string_at(whole(kGenerate, R"({"model":"tiny/model"})"), "/done_reason"), "load");
  EXPECT_EQ(string_at(whole(kGenerate, R"({"keep_alive":0})"), "/done_reason"), "unload");
  const auto value = whole(kChat, R"({"model":"tiny/model","messages":[],"keep_alive":"0"})");
  EXPECT_EQ(string_at(value, "/done_reason"), "unload");
  EXPECT_EQ(string_at(value, "/message/role"), "assistant");
  EXPECT_TRUE(value.at("done").as_bool());
  EXPECT_EQ(service.n_calls(), 0u);
}

TEST_F(ServerOllama, errors_are_one_sentence) {
  EXPECT_EQ(expect_sentence(client().post(kChat, R"({"model":"other","messages":[]})"), 404),
            "model 'other' not found; 'tiny/model' is served (kvik serve --alias '*' answers to "
            "any name)");
  EXPECT_EQ(expect_sentence(client().post(kChat, R"({"messages":[{"role":1}]})"), 400),
            "messages.role must be a string, not a number");
  EXPECT_NE(expect_sentence(client().post(kGenerate, "{"), 400), "");
  EXPECT_NE(expect_sentence(client().get("/api/unknown"), 404), "");
  EXPECT_NE(expect_sentence(client().get(kChat), 405), "");
  service.refuse({ErrorCode::kExhausted, "the queue is full"});
  EXPECT_EQ(expect_sentence(client().post(kChat, std::string(kHi) + "}"), 429),
            "the queue is full");
}

TEST_F(ServerOllama, an_answer_that_fails_ends_its_stream_with_an_error) {
  say({"Hel"}, FinishReason::kFailed);
  const auto lines = stream(kChat, std::string(kHi) + "}");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(string_at(lines[1], "/error")
                  .starts_with("the engine could not finish this completion: the logits"));
}

TEST_F(ServerOllama, a_silent_stream_is_kept_open_by_blanks) {
  options.heartbeat = std::chrono::milliseconds(10);
  RawClient reader = client();
  reader.send_post(kChat, std::string(kHi) + "}");
  const auto call = service.wait_for_call();
  ASSERT_TRUE(call);
  EXPECT_EQ(reader.read_head().status, 200);
  EXPECT_EQ(reader.read_chunk(), " ");
  call->send("Hello");
  call->finish();
  call->done();
  std::string body;
  while (const auto chunk = reader.read_chunk()) body += *chunk;
  const auto lines = lines_of(body);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(string_at(lines[0], "/message/content"), "Hello");
}

TEST_F(ServerOllama, a_client_that_leaves_cancels_its_answer) {
  RawClient reader = client();
  reader.send_post(kGenerate, R"({"prompt":"Hi"})");
  const auto call = service.wait_for_call();
  ASSERT_TRUE(call);
  reader.close();
  EXPECT_TRUE(call->wait_cancelled());
}

TEST_F(ServerOllama, a_slow_reader_is_cut_off) {
  options.stream_buffer_bytes = 4096;
  RawClient reader = client(4096);
  reader.send_post(kGenerate, R"({"prompt":"Hi"})");
  const auto call = service.wait_for_call();
  ASSERT_TRUE(call);
  for (int i = 0; i < 2000 && !call->is_cancelled(); ++i) call->send(std::string(1000, 'x'));
  EXPECT_TRUE(call->wait_cancelled());
  expect_alive();
}

TEST_F(ServerOllama, keys_are_needed_and_name_the_tenant) {
  options.api_keys = {{.secret = "k1", .name = "ann", .cache_salt = "s"}};
  EXPECT_NE(expect_sentence(client().post(kChat, std::string(kHi) + "}"), 401), "");
  EXPECT_NE(expect_sentence(client().get("/api/tags"), 401), "");
  say({"Hello"});
  const RawResponse response = client().post(kChat, std::string(kHi) + R"(,"stream":false})",
                                             "Authorization: Bearer k1\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(service.wait_for_call()->request.engine.tenant, "ann");
  EXPECT_NE(service.wait_for_call()->request.engine.cache_salt, "");
}

TEST_F(ServerOllama, a_draining_server_refuses_to_compute) {
  start().stop_accepting();
  EXPECT_EQ(expect_sentence(client().post(kChat, std::string(kHi) + "}"), 503),
            "the server is stopping");
}

TEST_F(ServerOllama, texts_are_embedded) {
  const auto value = whole("/api/embed", R"({"model":"tiny/model","input":["abc","a"]})");
  EXPECT_EQ(boost::json::serialize(value.at("embeddings")), "[[1,0],[5E-1,0]]");
  EXPECT_EQ(value.at("prompt_eval_count").as_int64(), 6);
  EXPECT_GT(value.at("total_duration").as_int64(), 0);
  EXPECT_EQ(string_at(value, "/model"), "tiny/model");
  EXPECT_EQ(whole("/api/embed", R"({"input":"abc"})").at("embeddings").as_array().size(), 1u);
  EXPECT_TRUE(whole("/api/embed", R"({"input":[]})").at("embeddings").as_array().empty());
}

TEST_F(ServerOllama, the_older_route_embeds_one_text) {
  const auto value = whole("/api/embeddings", R"({"model":"tiny/model","prompt":"abc"})");
  EXPECT_EQ(boost::json::serialize(value), R"({"embedding":[1,0]})");
  EXPECT_TRUE(whole("/api/embeddings", R"({"prompt":""})").at("embedding").as_array().empty());
}

TEST_F(ServerOllama, the_version_is_that_of_the_api) {
  options.version = "1.2.3";
  const auto value = json(client().get("/api/version").body);
  EXPECT_TRUE(string_at(value, "/version").starts_with("0."));
  EXPECT_EQ(string_at(value, "/kvik/version"), "1.2.3");
}

TEST_F(ServerOllama, its_clients_learn_that_the_server_runs) {
  const RawResponse status = client().get("/", "Accept: application/json\r\n");
  EXPECT_EQ(status.status, 200);
  EXPECT_EQ(status.body, "Ollama is running");
  EXPECT_EQ(client().get("/", "User-Agent: ollama/0.13.0\r\nAccept: */*\r\n").body,
            "Ollama is running");
  for (const char* accepted : {"", "Accept: */*\r\n", "Accept: text/html,*/*;q=0.8\r\n"})
    EXPECT_TRUE(client().get("/", accepted).body.contains("<html")) << accepted;
}

}  // namespace
}  // namespace kvik
