#include <gtest/gtest.h>

#include "server_fixture.h"

namespace kvik {
namespace {

// Cost of the fake's usage: 2 computed, 1 cached and 2 generated tokens.
constexpr double kCost = (2 * 3 + 1 * 0.5 + 2 * 15) / 1e6;

class ServerPrices : public ServerFixture {
 protected:
  ServerPrices() {
    options.prices = Prices{.input = 3, .cached = 0.5, .output = 15};
    options.api_keys = std::vector<ApiKey>{{.secret = "secret-a", .name = "ann"},
                                           {.secret = "secret-b", .name = "bob"},
                                           {.secret = "secret-o", .is_operator = true}};
  }

  void answer_hello() {
    service.answer_with([](FakeCall& call) {
      call.begin();
      call.send("Hello");
      call.finish();
      call.done();
    });
  }

  boost::json::value ask(const char* path, const char* body) {
    return json(client().post(path, body, "x-api-key: secret-a\r\n").body);
  }
  std::string metrics() { return client().get("/metrics", "x-api-key: secret-o\r\n").body; }

  static double cost_of(const boost::json::value& value) {
    boost::json::error_code error;
    const auto* cost = value.find_pointer("/usage/kvik/cost", error);
    return cost ? cost->to_number<double>() : -1;
  }
};

TEST_F(ServerPrices, every_dialect_tells_what_a_request_cost) {
  answer_hello();
  EXPECT_NEAR(cost_of(ask("/v1/completions", R"({"prompt":"x"})")), kCost, 1e-12);
  const char* chat = R"({"messages":[{"role":"user","content":"x"}]})";
  EXPECT_NEAR(cost_of(ask("/v1/chat/completions", chat)), kCost, 1e-12);
  EXPECT_NEAR(cost_of(ask("/v1/messages", chat)), kCost, 1e-12);
  EXPECT_NEAR(cost_of(ask("/v1/responses", R"({"input":"x"})")), kCost, 1e-12);
  // The input has two tokens, both computed.
  EXPECT_NEAR(cost_of(ask("/v1/embeddings", R"({"input":"x"})")), 2 * 3 / 1e6, 1e-12);
}

TEST_F(ServerPrices, without_prices_no_cost_is_reported) {
  options.prices.reset();
  answer_hello();
  EXPECT_EQ(cost_of(ask("/v1/completions", R"({"prompt":"x"})")), -1);
  EXPECT_EQ(metrics().find("kvik_key_cost"), std::string::npos);
}

TEST_F(ServerPrices, metrics_report_usage_by_key_name) {
  answer_hello();
  ask("/v1/completions", R"({"prompt":"x"})");
  ask("/v1/messages", R"({"messages":[{"role":"user","content":"x"}]})");
  const std::string page = metrics();
  const auto has = [&](std::string_view line) { return page.find(line) != std::string::npos; };
  EXPECT_TRUE(has(R"(kvik_key_computed_tokens_total{model_name="tiny/model",key="ann"} 4)"))
      << page;
  EXPECT_TRUE(has(R"(kvik_key_cached_tokens_total{model_name="tiny/model",key="ann"} 2)"));
  EXPECT_TRUE(has(R"(kvik_key_output_tokens_total{model_name="tiny/model",key="ann"} 4)"));
  EXPECT_TRUE(has(R"(kvik_key_output_tokens_total{model_name="tiny/model",key="bob"} 0)"));
  EXPECT_TRUE(has(R"(kvik_key_cost_total{model_name="tiny/model",key="ann"} 7.3e-05)")) << page;
  EXPECT_FALSE(has("secret"));
}

TEST_F(ServerPrices, canceled_requests_are_counted) {
  RawClient c = client();
  c.send_post("/v1/completions", R"({"prompt":"x","stream":true})", "x-api-key: secret-b\r\n");
  const auto call = service.wait_for_call();
  ASSERT_NE(call, nullptr);
  c.close();
  ASSERT_TRUE(call->wait_cancelled());
  call->abandon();
  EXPECT_NE(metrics().find(R"(kvik_key_output_tokens_total{model_name="tiny/model",key="bob"} 2)"),
            std::string::npos);
}

}  // namespace
}  // namespace kvik
