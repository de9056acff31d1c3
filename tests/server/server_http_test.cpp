#include <gtest/gtest.h>

#include "server_fixture.h"

namespace kvik {
namespace {

using ServerHttp = ServerFixture;
using std::chrono::milliseconds;

TEST_F(ServerHttp, health_livez_and_readyz_answer_ok) {
  for (const char* path : {"/health", "/livez", "/readyz"}) {
    const RawResponse response = client().get(path);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, R"({"status":"ok"})");
    EXPECT_EQ(response.header("content-type"), "application/json");
  }
}

TEST_F(ServerHttp, version_is_what_the_options_say) {
  options.version = "1.2.3";
  EXPECT_EQ(client().get("/version").body, R"({"version":"1.2.3"})");
}

TEST_F(ServerHttp, props_have_the_fields_that_llama_cpp_clients_read) {
  const auto props = json(client().get("/props").body);
  EXPECT_EQ(props.at_pointer("/default_generation_settings/n_ctx"), 256);
  EXPECT_EQ(string_at(props, "/model_alias"), "tiny/model");
  EXPECT_TRUE(props.at("chat_template").is_string());
  EXPECT_EQ(string_at(props, "/capabilities/0"), "completion");
}

TEST_F(ServerHttp, the_model_is_listed_and_found_by_its_id_plain_or_escaped) {
  const auto list = json(client().get("/v1/models").body);
  EXPECT_EQ(string_at(list, "/object"), "list");
  EXPECT_EQ(string_at(list, "/data/0/id"), "tiny/model");
  EXPECT_EQ(string_at(list, "/data/0/object"), "model");
  EXPECT_EQ(string_at(json(client().get("/v1/models/tiny/model").body), "/id"), "tiny/model");
  EXPECT_EQ(string_at(json(client().get("/v1/models/tiny%2Fmodel").body), "/id"), "tiny/model");
  EXPECT_EQ(expect_error(client().get("/v1/models/other"), 404), "model");
}

TEST_F(ServerHttp, text_is_tokenized_and_back) {
  EXPECT_EQ(client().post("/tokenize", R"({"content":"ab"})").body, R"({"tokens":[97,98]})");
  EXPECT_EQ(client().post("/tokenize", R"({"content":"a","add_special":true})").body,
            R"({"tokens":[1,97]})");
  EXPECT_EQ(client().post("/tokenize", R"({"content":"a","parse_special":true})").body,
            R"({"tokens":[2,97]})");
  EXPECT_EQ(client().post("/detokenize", R"({"tokens":[97,98]})").body, R"({"content":"ab"})");
  EXPECT_EQ(expect_error(client().post("/tokenize", R"({"content":7})"), 400), "content");
  EXPECT_EQ(expect_error(client().post("/tokenize", "{}"), 400), "content");
  EXPECT_EQ(expect_error(client().post("/detokenize", R"({"tokens":[-1]})"), 400), "tokens");
  EXPECT_EQ(expect_error(client().post("/detokenize", R"({"tokens":[999]})"), 400), "tokens");
  EXPECT_EQ(expect_error(client().post("/detokenize", R"({"tokens":"a"})"), 400), "tokens");
}

TEST_F(ServerHttp, a_wrong_path_is_404_and_a_wrong_method_405_with_allow) {
  expect_error(client().get("/nothing"), 404);
  expect_error(client().get("/v1/models/"), 404);
  const RawResponse get = client().get("/v1/completions");
  expect_error(get, 405);
  EXPECT_EQ(get.header("allow"), "POST");
  const RawResponse post = client().post("/health", "");
  expect_error(post, 405);
  EXPECT_EQ(post.header("allow"), "GET, HEAD");
}

TEST_F(ServerHttp, a_path_of_any_bytes_gives_an_error_of_valid_json) {
  const RawResponse response = client().get("/%ff%00\"\xc3");
  expect_error(response, 404);
  EXPECT_NE(response.body.find("there is no /\ufffd\u2400"), std::string::npos);
}

TEST_F(ServerHttp, head_gets_the_headers_of_get_and_no_body) {
  RawClient c = client();
  c.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse head = c.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "15");
  EXPECT_EQ(c.get("/health").status, 200);  // no body came between
}

TEST_F(ServerHttp, a_valid_request_id_is_returned_others_are_replaced) {
  EXPECT_EQ(client().get("/health", "X-Request-Id: my-id_1\r\n").header("x-request-id"), "my-id_1");
  const std::string made =
      client().get("/health", "x-request-id: a b\"\r\n").header("x-request-id");
  EXPECT_TRUE(made.starts_with("req-")) << made;
}

TEST_F(ServerHttp, two_requests_share_a_connection) {
  RawClient c = client();
  EXPECT_EQ(c.get("/health").status, 200);
  EXPECT_EQ(c.get("/version").status, 200);
  expect_error(c.get("/nothing"), 404);  // it has no body, so the connection stays open
  EXPECT_EQ(c.post("/tokenize", R"({"content":"a"})").status, 200);
}

TEST_F(ServerHttp, pipelined_requests_are_answered_in_order) {
  RawClient c = client();
  c.send(
      "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{\"content\":\"a\"}"
      "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(c.read_response().body, R"({"status":"ok"})");
  EXPECT_EQ(c.read_response().body, R"({"tokens":[97]})");
  EXPECT_EQ(c.read_response().body, R"({"version":"0"})");
}

TEST_F(ServerHttp, connection_close_is_obeyed) {
  RawClient c = client();
  EXPECT_EQ(c.get("/health", "Connection: close\r\n").header("connection"), "close");
  EXPECT_EQ(c.read_to_end(), "");
}

TEST_F(ServerHttp, http_1_0_is_closed_after_the_answer_unless_it_asks_to_stay) {
  RawClient c = client();
  c.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(c.read_response().status, 200);
  EXPECT_EQ(c.read_to_end(), "");
  RawClient stays = client();
  stays.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(stays.read_response().header("connection"), "keep-alive");
  EXPECT_EQ(stays.get("/health").status, 200);
}

TEST_F(ServerHttp, a_client_that_closed_its_sending_side_gets_its_answer) {
  RawClient c = client();
  c.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  c.shutdown_send();
  EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(ServerHttp, a_chunked_body_is_read) {
  RawClient c = client();
  c.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;x=y\r\n{\"con\r\na\r\ntent\":\"a\"}\r\n0\r\nTrailer: 1\r\n\r\n");
  EXPECT_EQ(c.read_response().body, R"({"tokens":[97]})");
  EXPECT_EQ(c.get("/health").status, 200);
}

TEST_F(ServerHttp, expect_100_continue_is_answered_before_the_body) {
  RawClient c = client();
  c.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "15\r\n\r\n");
  EXPECT_EQ(c.read_head().status, 100);
  c.send("{\"content\":\"a\"}");
  EXPECT_EQ(c.read_response().body, R"({"tokens":[97]})");
}

TEST_F(ServerHttp, expect_100_continue_of_a_refused_request_gets_the_refusal_alone) {
  RawClient c = client();
  c.send(
      "POST /no HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
  expect_error(c.read_response(), 404);
  EXPECT_EQ(c.read_to_end(), "");
  RawClient odd = client();
  odd.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nContent-Length: 15\r\n\r\n");
  expect_error(odd.read_response(), 417);
}

TEST_F(ServerHttp, a_header_of_1_mb_is_431) {
  RawClient c = client();
  c.send("GET /health HTTP/1.1\r\nHost: localhost\r\nBig: " + std::string(1 << 20, 'a') +
         "\r\n\r\n");
  expect_error(c.read_response(), 431);
  expect_alive();
}

TEST_F(ServerHttp, ten_thousand_headers_are_431) {
  for (const std::string field : {"a:b\r\n", "Header-Name: and its value\r\n"}) {
    RawClient c = client();
    std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
    for (int i = 0; i < 10'000; ++i) request += field;
    c.send(request + "\r\n");
    expect_error(c.read_response(), 431);
  }
  expect_alive();
}

TEST_F(ServerHttp, an_invalid_chunk_size_is_400) {
  for (const char* size : {"-2", "fffffffffffffffff", "xyz", "", " 5"}) {
    RawClient c = client();
    c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
           std::string(size) + "\r\nabcdefgh\r\n0\r\n\r\n");
    expect_error(c.read_response(), 400);
    EXPECT_EQ(c.read_to_end(), "");
  }
  expect_alive();
}

TEST_F(ServerHttp, an_endless_chunked_body_is_413) {
  options.body_limit_bytes = 100'000;
  RawClient c = client();
  c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1000\r\n" + std::string(0x1000, 'a') + "\r\n";
  while (!c.has_input(0) && c.send(chunk)) continue;
  expect_error(c.read_response(), 413);
  expect_alive();
}

TEST_F(ServerHttp, endless_chunk_extensions_are_400) {
  RawClient c = client();
  c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a=");
  const std::string more(4096, 'a');
  while (!c.has_input(0) && c.send(more)) continue;
  expect_error(c.read_response(), 400);
  expect_alive();
}

TEST_F(ServerHttp, a_content_length_over_the_limit_is_413_and_read_by_a_client_that_sends_it_all) {
  options.body_limit_bytes = 1 << 20;
  RawClient c = client();
  c.send_post("/tokenize", std::string(8 << 20, 'a'));
  expect_error(c.read_response(), 413);
  EXPECT_EQ(
      client().post("/tokenize", R"({"content":")" + std::string(1 << 19, 'a') + "\"}").status,
      200);
}

TEST_F(ServerHttp, bodies_that_are_too_many_together_are_503_until_one_is_done) {
  options.memory_limit_bytes = 1 << 20;  // half of it for bodies, which count twice
  const std::string body(200'000, ' ');
  RawClient first = client();
  first.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 240100\r\n\r\n" +
             std::string(240'000, ' '));
  const auto bytes_of_bodies = [this] {
    const std::string page = client().get("/metrics").body;
    const std::string_view name = "kind=\"bodies\"} ";
    return std::stod(page.substr(page.find(name) + name.size()));
  };
  for (int i = 0; bytes_of_bodies() < 480'000 && i < 10'000; ++i) continue;
  EXPECT_EQ(client().post("/tokenize", body).status, 503);
  first.send(std::string(100, ' '));
  expect_error(first.read_response(), 400);
  expect_error(client().post("/tokenize", body), 400);
}

TEST_F(ServerHttp, content_length_beside_transfer_encoding_is_400_and_closed) {
  for (const char* fields :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n", "Content-Length: -3\r\n"}) {
    RawClient c = client();
    c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
           "\r\n0\r\n\r\n");
    expect_error(c.read_response(), 400);
    EXPECT_EQ(c.read_to_end(), "") << fields;
  }
}

TEST_F(ServerHttp, garbage_is_400_and_closed) {
  for (const std::string garbage :
       {"\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    RawClient c = client();
    c.send(garbage);
    expect_error(c.read_response(), 400);
    EXPECT_EQ(c.read_to_end(), "");
  }
  expect_alive();
}

TEST_F(ServerHttp, a_slow_header_is_408) {
  options.header_timeout = milliseconds(100);
  RawClient c = client();
  c.send("GET /health HTTP/1.1\r\nX: ");
  while (!c.has_input(5) && c.send("a")) continue;
  expect_error(c.read_response(), 408);
}

TEST_F(ServerHttp, a_slow_body_is_408) {
  options.body_timeout = milliseconds(100);
  RawClient c = client();
  c.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
  while (!c.has_input(5) && c.send(" ")) continue;
  expect_error(c.read_response(), 408);
}

TEST_F(ServerHttp, an_idle_connection_is_closed_without_a_response) {
  options.idle_timeout = milliseconds(30);
  RawClient c = client();
  EXPECT_EQ(c.get("/health").status, 200);
  EXPECT_EQ(c.read_to_end(), "");
}

TEST_F(ServerHttp, a_connection_without_a_request_is_closed_sooner) {
  options.header_timeout = milliseconds(30);
  options.idle_timeout = std::chrono::hours(1);
  EXPECT_EQ(client().read_to_end(), "");
}

TEST_F(ServerHttp, over_the_limit_the_oldest_idle_connection_is_closed) {
  options.max_connections = 3;
  RawClient asked = client();
  EXPECT_EQ(asked.get("/health").status, 200);
  RawClient silent = client();
  RawClient slow = client();
  slow.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n{");
  EXPECT_EQ(asked.get("/health").status, 200);  // its idle time starts again
  RawClient fourth = client();
  EXPECT_EQ(fourth.get("/version").status, 200);
  EXPECT_EQ(silent.read_to_end(), "");
  RawClient fifth = client();
  EXPECT_EQ(fifth.get("/version").status, 200);
  EXPECT_EQ(slow.read_to_end(), "") << "nor has it sent a whole request";
  EXPECT_EQ(asked.get("/health").status, 200);
}

TEST_F(ServerHttp, over_the_limit_of_busy_ones_only_probes_are_answered) {
  options.max_connections = 2;
  RawClient first = client(), second = client();
  first.send_post("/v1/completions", R"({"prompt":"Hi"})");
  second.send_post("/v1/completions", R"({"prompt":"Hi"})");
  service.wait_for_call(0);
  const auto call = service.wait_for_call(1);
  for (const char* path : {"/health", "/livez", "/readyz"}) {
    RawClient probe = client();
    EXPECT_EQ(probe.get(path).status, 200);
    EXPECT_EQ(probe.read_to_end(), "");
  }
  RawClient third = client();
  expect_error(third.get("/version"), 503);
  EXPECT_EQ(third.read_to_end(), "");
  call->finish();
  call->done();
  EXPECT_EQ(second.read_response().status, 200);
  const std::string metrics = client().get("/metrics").body;
  const size_t at = metrics.find("reason=\"connections\"}");
  ASSERT_NE(at, std::string::npos) << metrics;
  EXPECT_EQ(metrics.substr(at, metrics.find('\n', at) - at), "reason=\"connections\"} 1")
      << "answered probes are not rejected";
}

TEST_F(ServerHttp, a_folded_header_is_400_and_closed) {
  for (const char* lines : {"X-A: 1\r\n 2\r\n", "X-A: 1\r\n\t2\r\n", " X-A: 1\r\n"}) {
    RawClient c = client();
    c.send("GET /health HTTP/1.1\r\nHost: localhost\r\n" + std::string(lines) + "\r\n");
    expect_error(c.read_response(), 400);
    EXPECT_EQ(c.read_to_end(), "") << lines;
  }
}

TEST_F(ServerHttp, a_request_names_one_host) {
  for (const char* lines : {"", "Host: localhost\r\nHost: localhost\r\n",
                            "Host: localhost\r\nX: 1\r\nhost: evil.example\r\n"}) {
    RawClient c = client();
    c.send("GET /health HTTP/1.1\r\n" + std::string(lines) + "\r\n");
    expect_error(c.read_response(), 400);
    EXPECT_EQ(c.read_to_end(), "") << lines;
  }
  RawClient old = client();
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response().status, 200) << "HTTP/1.0 knows no Host";
}

TEST_F(ServerHttp, without_a_valid_key_all_but_the_probes_is_401) {
  options.api_keys = {{.secret = "one", .name = "a"}, {.secret = "two", .name = "b"}};
  for (const char* headers : {"", "Authorization: Bearer on\r\n", "Authorization: Bearer onee\r\n",
                              "Authorization: Bearer \r\n", "Authorization: Basic one\r\n",
                              "x-api-key: \r\n", "x-api-key: oneone\r\n"}) {
    for (const char* path : {"/v1/models", "/v1/models/tiny/model", "/version", "/nothing"})
      expect_error(client().get(path, headers), 401);
    for (const char* path : {"/v1/completions", "/tokenize", "/detokenize"})
      expect_error(client().post(path, "{}", headers), 401);
  }
  for (const char* path : {"/health", "/livez", "/readyz"})
    EXPECT_EQ(client().get(path).status, 200);
  EXPECT_EQ(client().get("/version", "Authorization: Bearer one\r\n").status, 200);
  EXPECT_EQ(client().get("/version", "authorization: bearer two\r\n").status, 200);
  EXPECT_EQ(client().get("/version", "x-api-key: two\r\n").status, 200);
}

TEST_F(ServerHttp, an_empty_key_file_rejects_every_request) {
  options.api_keys.emplace();
  expect_error(client().get("/version", "x-api-key: \r\n"), 401);
}

TEST_F(ServerHttp, a_port_in_use_is_an_error_that_names_it) {
  start();
  options.port = server->port();
  const auto second = Server::start(service, options);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find("127.0.0.1:" + std::to_string(options.port)),
            std::string::npos)
      << second.error().message;
}

TEST_F(ServerHttp, localhost_and_ipv6_can_be_bound) {
  options.host = "localhost";
  EXPECT_EQ(client().get("/health").status, 200);
  options.host = "::1";
  EXPECT_TRUE(Server::start(service, options).has_value());
}

TEST_F(ServerHttp, an_invalid_host_is_an_error) {
  options.host = "300.1.2.3.invalid";
  const auto started = Server::start(service, options);
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(started.error().message.find("300.1.2.3.invalid"), std::string::npos);
}

}  // namespace
}  // namespace kvik
