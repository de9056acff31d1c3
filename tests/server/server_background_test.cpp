#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "server/dialects/responses/responses_store.h"
#include "server_fixture.h"

// Responses that are computed in the background.
namespace kvik {
namespace {

constexpr const char* kPath = "/v1/responses";
constexpr const char* kBackground = R"({"input":"Hi","background":true})";

// Keeps the newest JSON of each response, as a file would.
class ArchiveInMemory final : public ResponseArchive {
 public:
  void load(const ResponseStore::Bounds&,
            const std::function<void(std::string, ResponseStore::Record)>&) override {}
  void put(const std::string& id, const ResponseStore::Record& record) override {
    const std::scoped_lock lock(mutex_);
    all_[id] = record.response;
  }
  void erase(const std::string& id) override {
    const std::scoped_lock lock(mutex_);
    all_.erase(id);
  }
  std::map<std::string, std::string> all() const {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> all_;
};

class ServerBackground : public ServerFixture {
 protected:
  ServerBackground() { options.responses = &archive; }
  // The server uses the archive until it has stopped.
  ~ServerBackground() override { server.reset(); }

  // Starts a response and returns its id.
  std::string begin(std::string_view headers = "") {
    const RawResponse response = client().post(kPath, kBackground, headers);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto value = json(response.body);
    EXPECT_EQ(string_at(value, "/status"), "in_progress");
    EXPECT_EQ(value.at("background"), true);
    EXPECT_TRUE(value.at("output").as_array().empty());
    return string_at(value, "/id");
  }
  RawResponse poll(const std::string& id, std::string_view headers = "") {
    return client().get("/v1/responses/" + id, headers);
  }
  std::string status(const std::string& id) { return string_at(json(poll(id).body), "/status"); }
  RawResponse cancel(const std::string& id, std::string_view headers = "") {
    return client().post("/v1/responses/" + id + "/cancel", "", headers);
  }
  int remove(const std::string& id) {
    RawClient c = client();
    c.send("DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return c.read_response().status;
  }
  // Waits until the response has another status than in_progress.
  std::string last_status(const std::string& id) {
    const auto end = std::chrono::steady_clock::now() + kTestTimeout;
    std::string now = status(id);
    while (now == "in_progress" && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      now = status(id);
    }
    return now;
  }

  ArchiveInMemory archive;
};

TEST_F(ServerBackground, a_response_is_polled_until_it_is_complete) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  ASSERT_NE(call, nullptr);
  call->begin();
  call->send("Hel");
  EXPECT_EQ(status(id), "in_progress");
  EXPECT_TRUE(archive.all().empty());
  call->send("lo");
  call->finish();
  call->done();
  EXPECT_EQ(last_status(id), "completed");
  const auto value = json(poll(id).body);
  EXPECT_EQ(string_at(value, "/id"), id);
  EXPECT_EQ(value.at("background"), true);
  EXPECT_EQ(string_at(value, "/output/0/content/0/text"), "Hello");
  EXPECT_EQ(value.at_pointer("/usage/output_tokens"), 2);
  EXPECT_EQ(string_at(json(archive.all()[id]), "/status"), "completed");
  // A complete response is returned by cancel, and stays as it is.
  EXPECT_EQ(json(cancel(id).body), value);
}

TEST_F(ServerBackground, a_response_that_is_cut_is_incomplete_and_an_error_is_stored) {
  const std::string cut = begin();
  const auto first = service.wait_for_call(0);
  first->send("Hel");
  first->finish(FinishReason::kLength);
  first->done();
  EXPECT_EQ(last_status(cut), "incomplete");
  const std::string failed = begin();
  const auto second = service.wait_for_call(1);
  second->finish(FinishReason::kFailed);
  second->done();
  EXPECT_EQ(last_status(failed), "failed");
  EXPECT_EQ(string_at(json(poll(failed).body), "/error/code"), "server_error");
}

TEST_F(ServerBackground, cancel_ends_a_response_once) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  const RawResponse first = cancel(id);
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(string_at(json(first.body), "/status"), "cancelled");
  EXPECT_TRUE(call->wait_cancelled());
  call->send("late");
  call->abandon();
  EXPECT_EQ(cancel(id).body, first.body);
  EXPECT_EQ(poll(id).body, first.body);
  EXPECT_EQ(string_at(json(archive.all()[id]), "/status"), "cancelled");
}

TEST_F(ServerBackground, only_background_responses_are_cancelled) {
  service.answer_with([](FakeCall& call) {
    call.send("x");
    call.finish();
    call.done();
  });
  const std::string id = string_at(json(client().post(kPath, R"({"input":"Hi"})").body), "/id");
  EXPECT_EQ(expect_error(cancel(id), 400), "response_id");
  EXPECT_EQ(expect_error(cancel("resp_none"), 404), "response_id");
  expect_error(client().post("/v1/responses/" + id, ""), 405);
  expect_error(client().get("/v1/responses/" + id + "/cancel"), 405);
}

TEST_F(ServerBackground, a_response_that_is_deleted_while_it_runs_is_cancelled) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  EXPECT_EQ(remove(id), 200);
  EXPECT_TRUE(call->wait_cancelled());
  call->finish();
  call->done();
  EXPECT_EQ(poll(id).status, 404);
  EXPECT_EQ(cancel(id).status, 404);
  EXPECT_EQ(remove(id), 404);
  EXPECT_TRUE(archive.all().empty());
}

TEST_F(ServerBackground, another_key_neither_sees_nor_cancels_nor_deletes_it) {
  options.api_keys = {{.secret = "k1", .name = "ann", .cache_salt = ""},
                      {.secret = "k2", .name = "ben", .cache_salt = ""}};
  const std::string ann = "Authorization: Bearer k1\r\n", ben = "Authorization: Bearer k2\r\n";
  const std::string id = begin(ann);
  const auto call = service.wait_for_call();
  EXPECT_EQ(call->request.engine.tenant, "ann");
  EXPECT_EQ(poll(id, ben).status, 404);
  EXPECT_EQ(cancel(id, ben).status, 404);
  RawClient c = client();
  c.send("DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: localhost\r\n" + ben + "\r\n");
  EXPECT_EQ(c.read_response().status, 404);
  const std::string more = R"({"input":"x","previous_response_id":")" + id + R"("})";
  EXPECT_NE(client().post(kPath, more, ben).body.find("is not stored"), std::string::npos);
  EXPECT_FALSE(call->is_cancelled());
  EXPECT_EQ(poll(id, ann).status, 200);
  EXPECT_EQ(cancel(id, ann).status, 200);
}

TEST_F(ServerBackground, a_conversation_continues_only_after_its_end) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  const std::string more = R"({"input":"More","previous_response_id":")" + id + R"("})";
  const RawResponse refused = client().post(kPath, more);
  EXPECT_EQ(expect_error(refused, 400), "previous_response_id");
  EXPECT_NE(refused.body.find("still in progress"), std::string::npos);
  EXPECT_EQ(client().get("/v1/responses/" + id + "/input_items").status, 200);
  call->send("Hello");
  call->finish();
  call->done();
  EXPECT_EQ(last_status(id), "completed");
  RawClient c = client();
  c.send_post(kPath, more);
  const auto ids = std::get<std::vector<TokenId>>(service.wait_for_call(1)->request.prompt);
  EXPECT_EQ(std::string(ids.begin(), ids.end()),
            "user: Hi\nassistant: Hello\nuser: More\nassistant:");
}

TEST_F(ServerBackground, what_background_excludes_is_refused) {
  for (const char* more :
       {R"("store":false)", R"("stream":true)", R"("store":false,"stream":true)"}) {
    const std::string body = std::string(R"({"input":"Hi","background":true,)") + more + "}";
    EXPECT_EQ(expect_error(client().post(kPath, body), 400), "background") << body;
  }
  service.refuse({ErrorCode::kExhausted, "too many requests"});
  EXPECT_EQ(client().post(kPath, kBackground).status, 429);
  EXPECT_TRUE(archive.all().empty());
}

TEST_F(ServerBackground, one_that_runs_when_the_server_stops_is_stored_as_failed) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  server->stop(std::chrono::milliseconds(20));
  EXPECT_TRUE(call->wait_cancelled());
  const auto value = json(archive.all()[id]);
  EXPECT_EQ(string_at(value, "/status"), "failed");
  EXPECT_NE(string_at(value, "/error/message").find("the server stopped"), std::string::npos);
  EXPECT_EQ(value.at("background"), true);
}

TEST_F(ServerBackground, a_server_that_stops_waits_for_it) {
  const std::string id = begin();
  const auto call = service.wait_for_call();
  std::thread stopping([&] { server->stop(kTestTimeout); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  call->send("Hello");
  call->finish();
  call->done();
  stopping.join();
  EXPECT_EQ(string_at(json(archive.all()[id]), "/status"), "completed");
}

TEST_F(ServerBackground, many_run_at_once) {
  constexpr size_t kMany = 40;
  std::vector<std::string> ids;
  for (size_t i = 0; i < kMany; ++i) ids.push_back(begin());
  for (size_t i = 0; i < kMany; ++i) {
    const auto call = service.wait_for_call(i);
    ASSERT_NE(call, nullptr);
    if (i % 4 == 0) continue;
    call->send(std::to_string(i));
    call->finish();
    call->done();
  }
  for (size_t i = 0; i < kMany; ++i) {
    if (i % 4 == 0) {
      EXPECT_EQ(string_at(json(cancel(ids[i]).body), "/status"), "cancelled");
    } else {
      EXPECT_EQ(last_status(ids[i]), "completed");
      EXPECT_EQ(string_at(json(poll(ids[i]).body), "/output/0/content/0/text"), std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace kvik
