#include "server/http/http_message.h"

#include <gtest/gtest.h>

#include "server/http/request_parser.h"
#include "server/server.h"

namespace kvik {
namespace {

constexpr RequestLimits kLimits{.header_bytes = 1024, .header_fields = 8, .body_bytes = 1024};

TEST(HttpMessage, a_path_is_unescaped_and_loses_query_and_host) {
  EXPECT_EQ(path_of_target("/a%20b?x=%20"), "/a b");
  EXPECT_EQ(path_of_target("http://host:80/a"), "/a");
  EXPECT_EQ(path_of_target("http://host"), "/");
  EXPECT_EQ(path_of_target("/%zz%2"), "/%zz%2");
  EXPECT_EQ(path_of_target("*"), "*");
}

TEST(HttpMessage, an_absolute_target_names_its_host) {
  EXPECT_EQ(authority_of_target("http://host:80/a"), "host:80");
  EXPECT_EQ(authority_of_target("https://host?x"), "host");
  EXPECT_EQ(authority_of_target("http:///a"), "");
  EXPECT_EQ(authority_of_target("/a?http://host/"), std::nullopt);
  EXPECT_EQ(path_of_target("http://host?x=/y"), "/");
}

TEST(HttpMessage, chunks_are_framed_in_1_1_and_bare_in_1_0) {
  HttpFraming framing;
  EXPECT_EQ(frame_part("0123456789abcdef", framing), "10\r\n0123456789abcdef\r\n");
  EXPECT_EQ(frame_part("", framing), "");
  EXPECT_EQ(frame_end(framing), "0\r\n\r\n");
  framing.minor_version = 0;
  EXPECT_EQ(frame_part("abc", framing), "abc");
  EXPECT_EQ(frame_end(framing), "");
}

TEST(RequestParser, a_request_is_read_whatever_pieces_it_comes_in) {
  const std::string bytes =
      "POST /x?y HTTP/1.1\r\nHost: h\r\nX-Key:  v \r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nT: 1\r\n\r\nNEXT";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestParser parser(kLimits);
    std::string window;
    size_t n_given = 0;
    while (parser.stage() != RequestParser::Stage::kDone) {
      const auto n_taken = window.empty() ? 0 : parser.feed(window);
      ASSERT_TRUE(n_taken.has_value()) << n_taken.error().message;
      window.erase(0, *n_taken);
      if (*n_taken > 0 && !window.empty()) continue;
      ASSERT_TRUE(n_given < bytes.size() || parser.stage() == RequestParser::Stage::kDone);
      window += bytes.substr(n_given, piece);
      n_given = std::min(bytes.size(), n_given + piece);
    }
    const HttpRequest& request = parser.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/x");
    EXPECT_EQ(request.header("x-key"), "v");
    EXPECT_EQ(request.body, "abcde");
    EXPECT_TRUE(std::string("NEXT").starts_with(window.substr(0, 4)));
  }
}

TEST(RequestParser, a_request_without_a_body_is_done_with_its_head) {
  RequestParser parser(kLimits);
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nrest";
  EXPECT_EQ(*parser.feed(bytes), bytes.size() - 4);
  EXPECT_EQ(parser.stage(), RequestParser::Stage::kDone);
  EXPECT_FALSE(parser.request().keep_alive);
  EXPECT_FALSE(parser.request().has_body);
}

TEST(ListenAddress, loopback_hosts_are_recognized) {
  for (const char* host :
       {"127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "", "192.168.0.1", "1127.0.0.1", "localhost.example",
                           "127.0.0.1.example", "::ffff:10.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace kvik
