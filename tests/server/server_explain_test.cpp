#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server_fixture.h"

namespace kvik {
namespace {

using testing::HasSubstr;

class ServerExplain : public ServerFixture {
 protected:
  // Answers each run with max_tokens tokens of equal cost, whatever its way.
  void run_completions() {
    service.answer_with([](FakeCall& call) {
      const std::vector<float> logits(128, 0.5f);
      const auto n = static_cast<uint32_t>(call.request.max_tokens.value_or(0));
      for (uint32_t i = 0; i < n; ++i) {
        call.trace({.id = 'x',
                    .began = {},
                    .at = TimePoint{} + std::chrono::milliseconds(2 * i + 2),
                    .position = 3 + i,
                    .kv_rows = 4 + i,
                    .kv_bytes = 64,
                    .n_other_sequences = 0,
                    .logits = logits});
      }
      call.finish(FinishReason::kLength);
      call.done();
    });
  }
};

// Returns the data of the first event with that name.
std::string event(const std::string& body, const std::string& name) {
  const size_t at = body.find("event: " + name + "\ndata: ");
  if (at == body.npos) return "";
  const size_t begin = body.find("data: ", at) + 6;
  return body.substr(begin, body.find("\n\n", begin) - begin);
}

TEST_F(ServerExplain, tells_tokens_as_they_come_and_a_report_at_the_end) {
  run_completions();
  const auto response = client().post("/kvik/explain", R"({"prompt":"abc","max_tokens":5})");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_THAT(event(response.body, "tokens"), HasSubstr(R"("way":"cold","first":0)"));
  EXPECT_THAT(response.body, HasSubstr("event: end"));
  const auto report = json(event(response.body, "report"));
  EXPECT_EQ(report.at("model").as_string(), "tiny/model");
  EXPECT_EQ(report.at("prompt").at("tokens").to_number<int>(), 4) << "with the beginning";
  EXPECT_EQ(report.at("answer").at("text").as_string(), "xxxxx");
  EXPECT_TRUE(report.at("bits").at("equal").as_bool());
  EXPECT_EQ(report.at("bits").at("compared").to_number<int>(), 8 * 5 * 128)
      << "three repeats of three runs, all against the first cold one";
  ASSERT_EQ(report.at("runs").as_array().size(), 3u);
  for (const auto& run : report.at("runs").as_array()) {
    for (const char* column : {"ms", "n_seen", "kv_rows", "kv_bytes", "beside"}) {
      EXPECT_EQ(run.at(column).as_array().size(), 5u) << column;
    }
    EXPECT_EQ(run.at("ms").as_array()[1].to_number<double>(), 2);
  }
}

TEST_F(ServerExplain, asks_for_the_same_greedy_answer_with_the_cache_without_and_again) {
  run_completions();
  ASSERT_EQ(client().post("/kvik/explain", R"({"prompt":"abc","max_tokens":5})").status, 200);
  const auto cold = service.wait_for_call(0), naive = service.wait_for_call(1);
  const auto warm = service.wait_for_call(2);
  ASSERT_TRUE(cold && naive && warm);
  EXPECT_EQ(cold->request.engine.cache, Request::Cache::kUse);
  EXPECT_EQ(naive->request.engine.cache, Request::Cache::kOff);
  EXPECT_EQ(warm->request.engine.cache, Request::Cache::kUse);
  EXPECT_EQ(cold->request.engine.cache_salt, warm->request.engine.cache_salt);
  EXPECT_FALSE(cold->request.engine.cache_salt.empty());
  for (const auto& call : {cold, naive, warm}) {
    EXPECT_EQ(call->request.engine.sampling.temperature, 0);
    EXPECT_TRUE(call->request.ignore_eos);
    EXPECT_GT(call->request.engine.priority, 1'000'000) << "others come first";
  }
}

TEST_F(ServerExplain, the_experiment_belongs_to_the_tenant_of_the_key) {
  options.api_keys = {{.secret = "k", .name = "bank", .cache_salt = "s"}};
  run_completions();
  EXPECT_EQ(client().post("/kvik/explain", R"({"prompt":"abc"})").status, 401);
  const auto response =
      client().post("/kvik/explain", R"({"prompt":"abc"})", "Authorization: Bearer k\r\n");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(service.wait_for_call()->request.engine.tenant, "bank");
  EXPECT_THAT(service.wait_for_call()->request.engine.cache_salt, HasSubstr("1:s:explain-"));
}

TEST_F(ServerExplain, one_at_a_time) {
  RawClient first = client();
  first.send_post("/kvik/explain", R"({"prompt":"abc"})");
  const auto call = service.wait_for_call();
  ASSERT_TRUE(call);
  expect_error(client().post("/kvik/explain", R"({"prompt":"abc"})"), 429);
  first.close();
  EXPECT_TRUE(call->wait_cancelled()) << "a disconnect stops the work";
}

TEST_F(ServerExplain, a_client_may_start_again_after_the_end_event) {
  run_completions();
  RawClient same = client();
  for (int i = 0; i < 20; ++i) {
    same.send_post("/kvik/explain", R"({"prompt":"abc","max_tokens":4})");
    ASSERT_NE(same.read_until("event: end"), "") << "round " << i;
    same.read_until("0\r\n\r\n");
  }
}

TEST_F(ServerExplain, refuses_what_would_take_too_long) {
  EXPECT_EQ(expect_error(client().post("/kvik/explain", "{}"), 400), "prompt");
  EXPECT_EQ(expect_error(client().post("/kvik/explain", R"({"prompt":"a","max_tokens":65})"), 400),
            "max_tokens");
  EXPECT_EQ(expect_error(client().post("/kvik/explain", R"({"prompt":"a","max_tokens":1})"), 400),
            "max_tokens");
  const std::string body = R"({"prompt":")" + std::string(600, 'a') + R"("})";
  EXPECT_EQ(expect_error(client().post("/kvik/explain", body), 400), "prompt");
  const std::string huge = R"({"prompt":")" + std::string(100'000, 'a') + R"("})";
  EXPECT_EQ(expect_error(client().post("/kvik/explain", huge), 400), "prompt");
  EXPECT_EQ(expect_error(client().post("/kvik/explain", R"({"prompt":7})"), 400), "prompt");
  expect_alive();
}

TEST_F(ServerExplain, a_full_server_rejects_it_before_it_begins) {
  service.refuse({ErrorCode::kExhausted, "the queue is full"});
  expect_error(client().post("/kvik/explain", R"({"prompt":"abc"})"), 429);
  service.refuse({ErrorCode::kExhausted, "the queue is full"}, 1);
  run_completions();
  const auto response = client().post("/kvik/explain", R"({"prompt":"abc"})");
  EXPECT_THAT(response.body, HasSubstr("the queue is full")) << "the second run was refused";
  EXPECT_THAT(response.body, testing::Not(HasSubstr("event: report")));
}

}  // namespace
}  // namespace kvik
