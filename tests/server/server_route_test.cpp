#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "server_fixture.h"

namespace kvik {
namespace {

using testing::HasSubstr;

class ServerRoute : public ServerFixture {
 protected:
  boost::json::object ask(const std::string& to, const std::string& body,
                          const std::string& headers = "") {
    const auto response = client().post("/kvik/route" + to, body, headers);
    EXPECT_EQ(response.status, 200) << response.body;
    return boost::json::parse(response.body).as_object();
  }
  std::string route(const std::string& prompt, const std::string& more = "",
                    const std::string& headers = "") {
    const std::string body = R"({"prompt":")" + prompt + "\"" + more + "}";
    return std::string(ask("/v1/completions", body, headers).at("route").as_string());
  }
};

TEST_F(ServerRoute, prompts_with_equal_beginnings_have_the_same_route) {
  const std::string begin(300, 'a');
  EXPECT_EQ(route(begin + " one"), route(begin + " other"));
  EXPECT_NE(route("b" + begin), route(begin));
  EXPECT_NE(route("short"), route("shorter"));
}

TEST_F(ServerRoute, salts_and_keys_have_different_routes) {
  options.api_keys = {{.secret = "k1", .name = "ann", .cache_salt = ""},
                      {.secret = "k2", .name = "bob", .cache_salt = "b"}};
  const std::string ann = "Authorization: Bearer k1\r\n";
  EXPECT_NE(route("abc", R"(,"cache_salt":"s")", ann), route("abc", "", ann));
  EXPECT_NE(route("abc", "", "Authorization: Bearer k2\r\n"), route("abc", "", ann));
  EXPECT_EQ(client().post("/kvik/route/v1/completions", R"({"prompt":"a"})").status, 401);
}

TEST_F(ServerRoute, every_dialect_has_one) {
  const std::string said = R"("messages":[{"role":"user","content":"hello"}])";
  const auto chat = ask("/v1/chat/completions", "{" + said + "}");
  EXPECT_EQ(chat.at("route"), ask("/v1/messages", R"({"max_tokens":1,)" + said + "}").at("route"));
  EXPECT_EQ(chat.at("route"), ask("/v1/responses", R"({"input":"hello"})").at("route"));
  EXPECT_EQ(chat.at("tokens"), chat.at("prompt_tokens"));
}

TEST_F(ServerRoute, bad_bodies_and_paths_are_named) {
  EXPECT_EQ(expect_error(client().post("/kvik/route/v1/completions", R"({"prompt":7})"), 400),
            "prompt");
  const auto response = client().post("/kvik/route/v1/models", "{}");
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("/v1/models"));
}

}  // namespace
}  // namespace kvik
