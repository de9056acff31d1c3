#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server_fixture.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

// Limits of the memory that the server holds for clients, and the errors beyond them.
class ServerMemory : public ServerFixture {
 protected:
  // Returns the bytes held for that purpose, according to /metrics.
  double held(std::string_view kind = "all") {
    const std::string page = client().get("/metrics").body;
    const size_t metric = page.find("\nkvik_request_memory_bytes{");
    const std::string label = "kind=\"" + std::string(kind) + "\"} ";
    const size_t at = page.find(label, metric);
    EXPECT_NE(metric, std::string::npos);
    EXPECT_NE(at, std::string::npos);
    return std::stod(page.substr(at + label.size()));
  }

  double connections() {
    const std::string page = client().get("/metrics").body;
    const size_t metric = page.find("\nkvik_http_connections{");
    EXPECT_NE(metric, std::string::npos);
    return std::stod(page.substr(page.find("} ", metric) + 2));
  }
};

constexpr const char* kPath = "/v1/completions";

CompletionChunk logprobs_of(size_t n, size_t n_top) {
  CompletionChunk chunk;
  for (size_t i = 0; i < n; ++i) {
    ChunkLogprob logprob;
    logprob.token = "t" + std::to_string(i);
    logprob.bytes = "b";
    logprob.logprob = -0.5f;
    logprob.text_offset = static_cast<uint32_t>(i);
    for (size_t k = 0; k < n_top; ++k) logprob.top.emplace_back("k" + std::to_string(k), -1.0f);
    chunk.logprobs.push_back(std::move(logprob));
  }
  return chunk;
}

TEST_F(ServerMemory, bodies_are_as_long_as_a_context_may_need) {
  const size_t most = RequestBounds::body_bytes(256);
  RawClient c = client();
  c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(most + 1) + "\r\n\r\n");
  expect_error(c.read_response(), 413);
}

TEST_F(ServerMemory, more_values_than_a_request_may_hold_are_refused_by_their_field) {
  std::string body = R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"x":[)";
  for (size_t i = 0; i < 100'000; ++i) body += "[],";
  EXPECT_EQ(expect_error(client().post("/v1/chat/completions", body + "[]]}}"), 400),
            "chat_template_kwargs");
  EXPECT_EQ(held("bodies") + held("answers"), 0) << "all is given back";
}

TEST_F(ServerMemory, long_fields_are_refused_in_every_dialect) {
  const std::string longer(RequestBounds::kFieldBytes + 1, 's');
  struct Route {
    const char* path;
    const char* rest;
  };
  for (const Route& route :
       {Route{kPath, R"("prompt":"a")"},
        Route{"/v1/chat/completions", R"("messages":[{"role":"user","content":"a"}])"},
        Route{"/v1/messages", R"("messages":[{"role":"user","content":"a"}])"},
        Route{"/v1/responses", R"("input":"a")"}, Route{"/v1/embeddings", R"("input":"a")"}}) {
    for (const char* field : {"cache_salt", "model", "prompt_cache_key"}) {
      const std::string body =
          std::string("{") + route.rest + ",\"" + field + "\":\"" + longer + "\"}";
      const RawResponse response = client().post(route.path, body);
      EXPECT_EQ(response.status, 400) << route.path << " " << field;
      EXPECT_LT(response.body.size(), 500u);
      EXPECT_NE(response.body.find(field), std::string::npos) << response.body;
    }
  }
  EXPECT_EQ(service.n_calls(), 0u);
}

TEST_F(ServerMemory, metadata_that_every_answer_repeats_is_bounded) {
  const auto body = [](size_t n) {
    return R"({"input":"a","metadata":{"k":")" + std::string(n, 'm') + "\"}}";
  };
  EXPECT_EQ(expect_error(client().post("/v1/responses", body(20'000)), 400), "metadata");
  EXPECT_EQ(expect_error(
                client().post("/v1/responses", R"({"input":"a","parallel_tool_calls":[[]]})"), 400),
            "parallel_tool_calls");
}

TEST_F(ServerMemory, an_answer_too_large_for_memory_is_rejected_at_once) {
  boost::json::array ids, prompts;
  for (int i = 0; i < 200; ++i) ids.emplace_back(i % 100);
  for (int i = 0; i < 64; ++i) prompts.emplace_back(ids);
  boost::json::object body{{"prompt", prompts}, {"max_tokens", 1}, {"prompt_logprobs", 20}};
  EXPECT_EQ(expect_error(client().post(kPath, boost::json::serialize(body)), 400),
            "prompt_logprobs");
  body = {{"prompt", prompts}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 20}};
  EXPECT_EQ(expect_error(client().post(kPath, boost::json::serialize(body)), 400), "logprobs");
  body = {{"prompt", prompts}, {"n", 17}};
  EXPECT_EQ(expect_error(client().post(kPath, boost::json::serialize(body)), 400), "n");
  body = {{"prompt", "a"}, {"n", 128}, {"logprobs", 20}, {"max_tokens", 200}};
  EXPECT_EQ(expect_error(client().post(kPath, boost::json::serialize(body)), 400), "logprobs");
  EXPECT_EQ(service.n_calls(), 0u);
}

TEST_F(ServerMemory, a_stream_of_the_same_size_is_accepted) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"a","n":128,"logprobs":20,"max_tokens":200,"stream":true})");
  EXPECT_NE(service.wait_for_call(), nullptr);
}

TEST_F(ServerMemory, logprobs_without_a_limit_are_limited_by_memory) {
  RawClient c = client();
  c.send_post("/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"a"}],"logprobs":true,"top_logprobs":20})");
  EXPECT_EQ(service.wait_for_call()->request.max_tokens, RequestBounds::kLogprobEntries / 21);
}

TEST_F(ServerMemory, a_large_answer_comes_in_pieces_that_are_one_json) {
  for (const char* path : {kPath, "/v1/chat/completions"}) {
    const size_t n_before = service.n_calls();
    const bool is_chat = std::string_view(path) != kPath;
    RawClient c = client();
    c.send_post(path, is_chat ? R"({"messages":[{"role":"user","content":"a"}],"max_tokens":9,)"
                                R"("logprobs":true,"top_logprobs":20})"
                              : R"({"prompt":"a","logprobs":20})");
    const auto call = service.wait_for_call(n_before);
    for (int i = 0; i < 10; ++i) call->send(logprobs_of(300, 20));
    call->send("text");
    call->finish();
    EXPECT_GT(held("answers"), 1'000'000);
    call->done();
    const RawResponse response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("transfer-encoding"), "chunked");
    const auto answer = json(response.body);
    const auto& logprobs = answer.at_pointer("/choices/0/logprobs").as_object();
    if (is_chat) {
      EXPECT_EQ(logprobs.at("content").as_array().size(), 3000u);
      EXPECT_EQ(logprobs.at("content").at(299).at("top_logprobs").as_array().size(), 20u);
      EXPECT_EQ(string_at(answer, "/choices/0/message/content"), "text");
    } else {
      EXPECT_EQ(logprobs.at("tokens").as_array().size(), 3000u);
      EXPECT_EQ(logprobs.at("top_logprobs").at(2999).as_object().size(), 20u);
      EXPECT_EQ(string_at(answer, "/choices/0/text"), "text");
    }
    EXPECT_EQ(string_at(answer, "/choices/0/finish_reason"), "stop");
    EXPECT_EQ(answer.at_pointer("/usage/prompt_tokens").as_int64(), 3);
    c.close();
    while (held("answers") > 0) continue;  // released after the answer is sent
  }
}

TEST_F(ServerMemory, an_old_client_reads_a_large_answer_to_the_end_of_the_connection) {
  RawClient c = client();
  const std::string body = R"({"prompt":"a","logprobs":20})";
  c.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body);
  const auto call = service.wait_for_call();
  call->send(logprobs_of(1000, 20));
  call->finish();
  call->done();
  const RawResponse response = c.read_response();
  EXPECT_EQ(response.header("transfer-encoding"), "");
  EXPECT_EQ(json(response.body).at_pointer("/choices/0/logprobs/tokens").as_array().size(), 1000u);
}

TEST_F(ServerMemory, a_small_answer_has_a_length) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"a"})");
  const auto call = service.wait_for_call();
  call->send("b");
  call->finish();
  call->done();
  const RawResponse response = c.read_response();
  EXPECT_EQ(response.header("content-length"), std::to_string(response.body.size()));
}

TEST_F(ServerMemory, an_answer_that_outgrows_memory_is_503_and_canceled) {
  options.memory_limit_bytes = 4 << 20;
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"a","logprobs":20})");
  const auto call = service.wait_for_call();
  for (int i = 0; i < 10; ++i) call->send(logprobs_of(300, 20));
  expect_error(c.read_response(), 503);
  EXPECT_TRUE(call->wait_cancelled());
  while (held("answers") > 0) continue;
  RawClient next = client();
  next.send_post(kPath, R"({"prompt":"a","logprobs":20})");
  const auto second = service.wait_for_call(1);
  second->send(logprobs_of(10, 20));
  second->finish();
  second->done();
  EXPECT_EQ(next.read_response().status, 200);
}

TEST_F(ServerMemory, stuck_readers_of_large_answers_are_disconnected) {
  options.memory_limit_bytes = 8 << 20;
  options.socket_send_buffer_bytes = 4096;
  std::vector<RawClient> slow;
  for (size_t i = 0; i < 12; ++i) {
    slow.push_back(client(4096));
    slow.back().send_post(kPath, R"({"prompt":"a","logprobs":20})");
    const auto call = service.wait_for_call(i);
    call->send(logprobs_of(600, 20));
    call->finish();
    call->done();
  }
  EXPECT_LE(held(), 8 << 20);
  EXPECT_EQ(client().post("/tokenize", R"({"content":"abc"})").status, 200);
}

TEST_F(ServerMemory, an_echo_in_a_stream_is_cut_into_events_that_add_up) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"a","echo":true,"logprobs":2,"stream":true})");
  const auto call = service.wait_for_call();
  CompletionChunk chunk = logprobs_of(1000, 2);
  chunk.text = "the echo";
  call->send(std::move(chunk));
  call->send("b");
  call->finish();
  call->done();
  std::string text;
  std::vector<std::string> tokens;
  size_t most = 0;
  const auto events = c.read_response().events();
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const auto event = json(events[i]);
    text += string_at(event, "/choices/0/text");
    const auto& some = event.at_pointer("/choices/0/logprobs/tokens").as_array();
    for (const auto& token : some) tokens.emplace_back(token.as_string());
    most = std::max(most, some.size());
  }
  EXPECT_EQ(text, "the echob");
  ASSERT_EQ(tokens.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(tokens[i], "t" + std::to_string(i));
  EXPECT_LE(most, 32u);
}

TEST_F(ServerMemory, many_tokens_of_a_text_come_in_pieces) {
  const std::string text(200'000, 'a');
  const RawResponse response = client().post("/tokenize", R"({"content":")" + text + "\"}");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("transfer-encoding"), "chunked");
  EXPECT_EQ(json(response.body).at("tokens").as_array().size(), 200'000u);
}

TEST_F(ServerMemory, out_of_memory_is_503_and_the_server_survives) {
  for (const std::string& more : {std::string(), std::string(100'000, ' ')}) {
    expect_error(client().post("/tokenize", R"({"content":"more than there is"})" + more), 503);
  }
  EXPECT_EQ(client().post("/tokenize", R"({"content":"less"})").status, 200);
}

TEST_F(ServerMemory, connections_beyond_memory_replace_idle_ones) {
  options.memory_limit_bytes = 1 << 20;  // a quarter of it for connections
  std::vector<RawClient> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(client());
  EXPECT_EQ(client().get("/health").status, 200);
  EXPECT_LE(held("connections"), 1 << 18);
  EXPECT_LE(connections(), (1 << 18) / (6 << 10)) << "those that took a place are counted as well";
  EXPECT_EQ(idle.front().read_to_end(), "");
  EXPECT_EQ(idle.back().get("/health").status, 200);
}

}  // namespace
}  // namespace kvik
