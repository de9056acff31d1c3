#include <gtest/gtest.h>

#include "server/http/callers.h"
#include "server_fixture.h"

namespace kvik {
namespace {

using ServerCallers = ServerFixture;

std::string get_as(std::string_view host, std::string_view headers = "",
                   std::string_view path = "/version") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" +
         std::string(headers) + "\r\n";
}

HttpRequest asked_as(const std::string& host) {
  HttpRequest head;
  head.headers = {{"host", host}};
  return head;
}

TEST_F(ServerCallers, a_rebound_dns_name_gets_403) {
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                           "localhost.evil.example", "10.0.0.1", "", "[", "localhost:1:2"}) {
    RawClient c = client();
    c.send(get_as(host));
    EXPECT_EQ(c.read_response().status, 403) << host;
  }
}

TEST_F(ServerCallers, loopback_names_are_answered) {
  for (const char* host : {"localhost", "LOCALHOST:8080", "kvik.localhost", "localhost.",
                           "127.0.0.1", "127.3.2.1:99", "[::1]:8080"}) {
    RawClient c = client();
    c.send(get_as(host));
    EXPECT_EQ(c.read_response().status, 200) << host;
  }
}

TEST_F(ServerCallers, allowed_hosts_are_answered_and_a_star_is_all) {
  options.allowed_hosts = {"Kvik.example"};
  RawClient c = client();
  c.send(get_as("kvik.example:443"));
  EXPECT_EQ(c.read_response().status, 200);
  c.send(get_as("other.example"));
  expect_error(c.read_response(), 403);

  const Callers all({.hosts = {"*"}});
  EXPECT_FALSE(all.refuse(asked_as("anything.example")));
}

TEST_F(ServerCallers, bound_to_all_addresses_any_address_is_answered_and_no_name) {
  const Callers callers({.host = "0.0.0.0"});
  EXPECT_FALSE(callers.refuse(asked_as("192.168.1.5:8080")));
  EXPECT_FALSE(callers.refuse(asked_as("[fe80::1]:8080")));
  EXPECT_TRUE(callers.refuse(asked_as("evil.example")));
  EXPECT_FALSE(Callers({.host = "10.1.2.3"}).refuse(asked_as("10.1.2.3")));
  EXPECT_TRUE(Callers({.host = "10.1.2.3"}).refuse(asked_as("10.1.2.4")));
}

TEST_F(ServerCallers, probes_are_answered_under_any_name_and_the_page_is_not) {
  RawClient c = client();
  c.send(get_as("10.2.0.17:8080", "", "/health"));
  EXPECT_EQ(c.read_response().status, 200);
  c.send(get_as("evil.example", "", "/"));
  EXPECT_EQ(c.read_response().status, 403);
}

TEST_F(ServerCallers, a_page_of_another_origin_gets_403) {
  RawClient c = client();
  const RawResponse response =
      c.post("/v1/completions", R"({"prompt":"Hi"})",
             "Origin: https://evil.example\r\nContent-Type: text/plain\r\n");
  expect_error(response, 403);
  EXPECT_EQ(response.header("access-control-allow-origin"), "");
  EXPECT_EQ(service.n_calls(), 0u);
  expect_error(client().get("/version", "Origin: null\r\n"), 403);
  expect_error(client().get("/health", "Origin: http://localhost.evil.example\r\n"), 403);
  expect_error(client().get("/version", "Origin: http://localhost:1\r\n"), 403);
}

TEST_F(ServerCallers, a_page_of_a_rebound_dns_name_gets_403) {
  RawClient c = client();
  c.send(get_as("evil.example", "Origin: http://evil.example\r\n", "/health"));
  EXPECT_EQ(c.read_response().status, 403);
}

TEST_F(ServerCallers, an_absolute_target_of_another_host_than_host_gets_400) {
  const auto status_of = [&](std::string_view target, std::string_view host) {
    RawClient c = client();
    c.send(get_as(host, "", target));
    return c.read_response().status;
  };
  EXPECT_EQ(status_of("http://evil.example/version", "localhost"), 400);
  EXPECT_EQ(status_of("http://localhost/version", "evil.example"), 400);
  EXPECT_EQ(status_of("http:///version", "localhost"), 400);
  EXPECT_EQ(status_of("http://a@localhost/version", "localhost"), 400);
  EXPECT_EQ(status_of("http://evil.example/version", "evil.example"), 403);
  EXPECT_EQ(status_of("http://LocalHost:80/version", "localhost:80"), 200);
}

TEST_F(ServerCallers, an_absolute_target_is_the_host_where_http_1_0_names_none) {
  RawClient c = client();
  c.send("GET http://evil.example/version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(c.read_response().status, 403);
}

TEST_F(ServerCallers, the_servers_own_page_may_call) {
  RawClient c = client();
  c.send(get_as("127.0.0.1:8080", "Origin: http://127.0.0.1:8080\r\n"));
  EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(ServerCallers, an_allowed_page_may_preflight_and_read_the_answer) {
  options.cors_origins = {"https://Chat.example/"};
  options.api_keys = std::vector<ApiKey>{{.secret = "sesame", .name = "a"}};
  const std::string wanted(300, 'x');  // OpenAI's client libraries send a dozen header names
  RawClient c = client();
  c.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization," +
      wanted + "\r\n\r\n");
  const RawResponse asked = c.read_head();
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.header("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(asked.header("access-control-allow-headers"), "authorization," + wanted);
  const RawResponse answer =
      c.get("/version", "Origin: https://chat.example\r\nx-api-key: sesame\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(answer.header("vary"), "Origin");
  expect_error(client().get("/version", "Origin: https://other.example\r\nx-api-key: sesame\r\n"),
               403);
  // A key is required nevertheless, and the page may read the 401.
  const RawResponse keyless = client().get("/version", "Origin: https://chat.example\r\n");
  expect_error(keyless, 401);
  EXPECT_EQ(keyless.header("access-control-allow-origin"), "https://chat.example");
}

TEST_F(ServerCallers, a_preflight_of_a_page_that_is_not_allowed_gets_403) {
  RawClient c = client();
  c.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  expect_error(c.read_response(), 403);
}

}  // namespace
}  // namespace kvik
