#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/routes.h"
#include "server_fixture.h"

namespace kvik {
namespace {

using ServerOpenApi = ServerFixture;

TEST_F(ServerOpenApi, describes_every_route) {
  const auto document = json(client().get("/openapi.json").body);
  EXPECT_EQ(string_at(document, "/openapi"), "3.1.0");
  std::set<std::string> described, routed;
  for (const auto& path : document.at("paths").as_object()) {
    for (const auto& method : path.value().as_object())
      described.insert(std::string(method.key()) + " " + std::string(path.key()));
  }
  for (const Route& route : routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    routed.insert(method + " " + std::string(route.path));
  }
  EXPECT_EQ(described, routed);
  EXPECT_TRUE(described.contains("post /v1/chat/completions"));
  EXPECT_TRUE(described.contains("get /v1/responses/{id}/input_items"));
}

TEST_F(ServerOpenApi, tells_what_a_body_holds) {
  const auto document = json(client().get("/openapi.json").body);
  const auto& chat = document.at("paths").at("/v1/chat/completions").at("post");
  const auto& schema =
      chat.at("requestBody").at("content").at("application/json").at("schema").as_object();
  EXPECT_EQ(schema.at("properties").at("messages").at("type"), "array");
  EXPECT_EQ(schema.at("required").as_array().at(0), "messages");
}

TEST_F(ServerOpenApi, a_path_without_its_id_is_still_its_route) {
  EXPECT_EQ(expect_error(client().get("/v1/responses/"), 404), "response_id");
  EXPECT_EQ(expect_error(client().get("/v1/models/"), 404), "model");
}

// The rows of a path form one route, and its first row handles all requests.
TEST(Routes, rows_of_one_path_have_one_handler_and_its_traits) {
  for (const Route& route : routes()) {
    for (const Route& other : routes()) {
      if (other.path != route.path) continue;
      EXPECT_TRUE(other.handler == route.handler) << route.path;
      EXPECT_EQ(other.traits.access, route.traits.access) << route.path;
      EXPECT_EQ(other.traits.drain, route.traits.drain) << route.path;
      EXPECT_EQ(other.traits.errors, route.traits.errors) << route.path;
      EXPECT_EQ(other.traits.work, route.traits.work) << route.path;
    }
  }
}

}  // namespace
}  // namespace kvik
