#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/router.h"
#include "server_fixture.h"

namespace kvik {
namespace {

using ServerOpenApi = ServerFixture;

TEST_F(ServerOpenApi, describes_every_route_and_no_other) {
  const auto document = json(client().get("/openapi.json").body);
  EXPECT_EQ(string_at(document, "/openapi"), "3.1.0");
  std::set<std::string> described, routed;
  for (const auto& path : document.at("paths").as_object()) {
    for (const auto& method : path.value().as_object()) {
      std::string name = std::string(method.key());
      std::ranges::transform(name, name.begin(), ::toupper);
      described.insert(name + " " + std::string(path.key()));
    }
  }
  for (const auto& [path, methods] : Router::routes()) {
    const std::string full =
        std::string(path) + (path.size() > 1 && path.ends_with('/') ? "{id}" : "");
    for (std::string_view rest = methods; !rest.empty();) {
      const size_t end = std::min(rest.find(", "), rest.size());
      routed.insert(std::string(rest.substr(0, end)) + " " + full);
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
  }
  routed.insert("GET /v1/responses/{id}/input_items");  // by the handler of /v1/responses/{id}
  EXPECT_EQ(described, routed);
}

}  // namespace
}  // namespace kvik
