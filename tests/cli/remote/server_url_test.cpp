#include "cli/remote/server_url.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

TEST(ServerUrl, parts_are_found_and_written_again) {
  struct Case {
    const char* text;
    const char* host;
    uint16_t port;
    const char* path;
    const char* written;
  };
  for (const Case& c :
       {Case{"http://127.0.0.1:8080", "127.0.0.1", 8080, "", "http://127.0.0.1:8080"},
        Case{"localhost:9000/", "localhost", 9000, "", "http://localhost:9000"},
        Case{"http://box", "box", 80, "", "http://box:80"},
        Case{"http://box:81/kvik//", "box", 81, "/kvik", "http://box:81/kvik"},
        Case{"http://[::1]:8080", "::1", 8080, "", "http://[::1]:8080"},
        Case{"http://[::1]", "::1", 80, "", "http://[::1]:80"}}) {
    const auto url = ServerUrl::parse(c.text);
    ASSERT_TRUE(url.has_value()) << c.text;
    EXPECT_EQ(url->host, c.host) << c.text;
    EXPECT_EQ(url->port, c.port) << c.text;
    EXPECT_EQ(url->path, c.path) << c.text;
    EXPECT_EQ(url->text(), c.written);
  }
}

TEST(ServerUrl, what_is_none_is_rejected_with_the_expected_form) {
  for (const char* text : {"", "http://", "http://:80", "http://a:0", "http://a:70000",
                           "http://a:b", "http://a b", "http://a\r\nX: y", "http://user@a",
                           "http://[::1", "http://[::1]x", "ftp://a", "http://a/x?y=1"}) {
    const auto url = ServerUrl::parse(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_NE(url.error().message.find("expected http://HOST:PORT"), std::string::npos) << text;
  }
}

TEST(ServerUrl, https_is_unsupported) {
  const auto url = ServerUrl::parse("https://box");
  ASSERT_FALSE(url.has_value());
  EXPECT_EQ(url.error().code, ErrorCode::kUnsupported);
}

TEST(ServerUrl, loopback_is_known) {
  for (const char* text : {"127.0.0.1", "127.1.2.3:80", "localhost:8080", "[::1]:80"}) {
    EXPECT_TRUE(ServerUrl::parse(text)->is_loopback()) << text;
  }
  EXPECT_FALSE(ServerUrl::parse("example.org")->is_loopback());
}

}  // namespace
}  // namespace kvik
