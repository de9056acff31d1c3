#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/mutex.h"
#include "server/operate/counter_sums.h"
#include "server/proxy/proxy_reply.h"
#include "server_fixture.h"

namespace kvik {
namespace {

// One model. A test sets its state.
class FakeModels final : public ModelServers {
 public:
  void set(ModelReadiness readiness) {
    std::function<void()> on_change;
    {
      const MutexLock lock(mutex_);
      readiness_ = std::move(readiness);
      on_change = on_change_;
    }
    if (on_change) on_change();
  }
  int n_uses() const { return n_uses_; }
  int n_uses_ever() const { return n_uses_ever_; }

  std::vector<ModelStatus> list() const override {
    const MutexLock lock(mutex_);
    ModelStatus status;
    status.name = "one";
    status.state = readiness_.state;
    status.port = readiness_.port;
    status.error = readiness_.error;
    return {status};
  }
  Result<std::string> resolve(std::string_view requested) const override {
    if (requested.empty() || requested == "one") return std::string("one");
    return fail(ErrorCode::kNotFound, "there is no such model", "model");
  }
  std::unique_ptr<ModelUse> use(const std::string&, std::function<void()> on_change) override {
    const MutexLock lock(mutex_);
    on_change_ = std::move(on_change);
    ++n_uses_ever_;
    return std::make_unique<Use>(*this);
  }
  void set_keep_alive(const std::string&, std::optional<Duration> keep_alive) override {
    const MutexLock lock(mutex_);
    keep_alives_.push_back(keep_alive);
  }
  std::vector<std::optional<Duration>> keep_alives() const {
    const MutexLock lock(mutex_);
    return keep_alives_;
  }
  void end_pause(const std::string&) override { ++n_pauses_ended; }
  void unload(const std::string&) override {}

  std::atomic<int> n_pauses_ended = 0;

 private:
  class Use final : public ModelUse {
   public:
    explicit Use(FakeModels& models) : models_(models) { ++models_.n_uses_; }
    ~Use() override { --models_.n_uses_; }
    ModelReadiness readiness() const override {
      const MutexLock lock(models_.mutex_);
      return models_.readiness_;
    }

   private:
    FakeModels& models_;
  };

  mutable Mutex mutex_;
  ModelReadiness readiness_ GUARDED_BY(mutex_);
  std::function<void()> on_change_ GUARDED_BY(mutex_);
  std::vector<std::optional<Duration>> keep_alives_ GUARDED_BY(mutex_);
  std::atomic<int> n_uses_ = 0, n_uses_ever_ = 0;
};

// A server that sends the same bytes to each client and closes the connection.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::string answer) : answer_(std::move(answer)) {
    socket_ = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n_bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_.get(), any, n_bytes), 0);
    EXPECT_EQ(listen(socket_.get(), 8), 0);
    EXPECT_EQ(getsockname(socket_.get(), any, &n_bytes), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }

  uint16_t port() const { return port_; }
  std::string request() const {
    const MutexLock lock(mutex_);
    return request_;
  }
  int n_requests() const {
    const MutexLock lock(mutex_);
    return n_requests_;
  }

 private:
  void serve() {
    for (;;) {
      const FileDescriptor client(accept(socket_.get(), nullptr, nullptr));
      if (!client.is_open()) return;
      char bytes[4096];
      const ssize_t n = read(client.get(), bytes, sizeof bytes);
      {
        const MutexLock lock(mutex_);
        request_.assign(bytes, n > 0 ? static_cast<size_t>(n) : 0);
        ++n_requests_;
      }
      for (size_t sent = 0; sent < answer_.size();) {
        const ssize_t n_sent =
            send(client.get(), answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
        if (n_sent <= 0) break;
        sent += static_cast<size_t>(n_sent);
      }
    }
  }

  const std::string answer_;
  FileDescriptor socket_;
  uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::string request_ GUARDED_BY(mutex_);
  int n_requests_ GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

class ServerRouter : public ServerFixture {
 protected:
  ServerRouter()
      : upstreams_(Upstreams::start().value()), router_{models_, *upstreams_, counters_} {
    options.router = &router_;
  }
  ~ServerRouter() override { server = nullptr; }  // before the models

  void load(const ScriptedServer& upstream, uint64_t n_loads = 1) {
    models_.set({.state = ModelState::kLoaded,
                 .progress = 1,
                 .n_loads = n_loads,
                 .port = upstream.port(),
                 .error = std::nullopt});
  }

  // Returns the answer to a streamed request. Its model is loading at first, and loaded after the
  // stream has begun.
  RawResponse stream_while_loading(const ScriptedServer& upstream, double progress) {
    models_.set({.state = ModelState::kLoading,
                 .progress = progress,
                 .n_loads = 0,
                 .port = std::nullopt,
                 .error = std::nullopt});
    std::thread loads([&] {
      std::this_thread::sleep_for(ProxyReply::kQuietTime + std::chrono::milliseconds(1500));
      load(upstream);
    });
    RawResponse got =
        client().post("/v1/completions", R"({"model":"one","prompt":"a","stream":true})");
    loads.join();
    return got;
  }

  static std::string answer(const std::string& body, const std::string& headers = "") {
    return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  static constexpr const char* kBody = R"({"model":"one","prompt":"a"})";

  FakeModels models_;
  std::unique_ptr<Upstreams> upstreams_;
  CounterSums counters_;
  ModelRouter router_;
};

TEST_F(ServerRouter, an_answer_passes_through_with_its_headers) {
  const ScriptedServer upstream(
      answer(R"({"x":1})", "X-Kvik-Thing: 7\r\nx-request-id: theirs\r\nConnection: close\r\n"));
  load(upstream);
  const RawResponse got = client().post("/v1/completions?a=b", kBody, "x-request-id: mine\r\n");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, R"({"x":1})");
  EXPECT_EQ(got.header("x-kvik-thing"), "7");
  EXPECT_EQ(got.header("x-request-id"), "mine");
  const std::string request = upstream.request();
  EXPECT_TRUE(request.starts_with("POST /v1/completions?a=b HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("x-request-id: mine\r\n"), std::string::npos);
  EXPECT_TRUE(request.ends_with(kBody));
}

TEST_F(ServerRouter, keep_alive_of_a_key_without_operator_rights_is_ignored) {
  const ScriptedServer upstream(answer("{}"));
  load(upstream);
  options.api_keys = {{.secret = "k1", .name = "ann"},
                      {.secret = "k2", .name = "bob", .is_operator = true}};
  const auto send = [&](const std::string& keep_alive, const std::string& key) {
    const std::string body =
        R"({"model":"one","prompt":"a","stream":false,"keep_alive":)" + keep_alive + "}";
    return client().post("/api/generate", body, "x-api-key: " + key + "\r\n").status;
  };
  for (const char* keep_alive : {"0", "-1", "\"5m\""}) EXPECT_EQ(send(keep_alive, "k1"), 200);
  EXPECT_TRUE(models_.keep_alives().empty());
  for (const char* keep_alive : {"0", "-1", "\"5m\""}) EXPECT_EQ(send(keep_alive, "k2"), 200);
  EXPECT_EQ(models_.keep_alives(), (std::vector<std::optional<Duration>>{
                                       Duration::zero(), std::nullopt, std::chrono::minutes(5)}));
}

TEST_F(ServerRouter, keep_alive_needs_no_key_on_a_server_without_keys) {
  const ScriptedServer upstream(answer("{}"));
  load(upstream);
  EXPECT_EQ(client().post("/api/generate", R"({"model":"one","prompt":"a","keep_alive":0})").status,
            200);
  EXPECT_EQ(models_.keep_alives().size(), 1u);
}

TEST_F(ServerRouter, a_request_without_memory_for_its_answer_is_503) {
  const ScriptedServer upstream(answer("{}"));
  load(upstream);
  options.memory_limit_bytes = Upstreams::kBufferBytes;  // answers may take half of it
  expect_error(client().post("/v1/completions", kBody), 503);
  EXPECT_EQ(upstream.request(), "");
}

TEST_F(ServerRouter, cancelling_a_response_loads_no_model) {
  const ScriptedServer upstream(answer("{}"));
  models_.set({.state = ModelState::kUnloaded,
               .progress = 0,
               .n_loads = 0,
               .port = std::nullopt,
               .error = std::nullopt});
  for (const char* query : {"", "?model=one"}) {
    const std::string path = std::string("/v1/responses/resp_1/cancel") + query;
    for (const char* body : {"", "{}", R"({"model":"one"})"})
      EXPECT_EQ(expect_error(client().post(path, body), 503), "model");
  }
  EXPECT_EQ(models_.n_uses_ever(), 0);
  load(upstream);
  EXPECT_EQ(client().post("/v1/responses/resp_1/cancel", "{}").status, 200);
  EXPECT_EQ(client().post("/v1/responses/resp_1/cancel?model=one", "").status, 200);
}

TEST_F(ServerRouter, a_path_is_escaped_again) {
  const ScriptedServer upstream(answer("{}"));
  load(upstream);
  EXPECT_EQ(client().get("/v1/responses/a%0d%0aX:%20b%00c%2F").status, 200);
  EXPECT_TRUE(upstream.request().starts_with("GET /v1/responses/a%0D%0AX:%20b%00c/ HTTP/1.1\r\n"))
      << upstream.request();
}

TEST_F(ServerRouter, an_answer_of_unknown_length_is_sent_in_chunks) {
  const ScriptedServer upstream(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  load(upstream);
  const RawResponse got = client().post("/v1/completions", kBody);
  EXPECT_EQ(got.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(got.header("content-type"), "text/event-stream");
}

TEST_F(ServerRouter, an_answer_that_breaks_off_is_an_error) {
  const ScriptedServer upstream(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":");
  load(upstream);
  expect_error(client().post("/v1/completions", kBody), 503);
  expect_alive();
}

TEST_F(ServerRouter, a_stream_that_breaks_off_ends_with_an_error_event) {
  const ScriptedServer upstream(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ndata: 1\n\n\r\n");
  load(upstream);
  const RawResponse got = client().post("/v1/completions", kBody);
  EXPECT_TRUE(got.body.starts_with("data: 1\n\ndata: {\"error\"")) << got.body;
  const RawResponse messages = client().post("/v1/messages", kBody);
  EXPECT_NE(messages.body.find("event: error\ndata: {\"type\":\"error\""), std::string::npos);
}

TEST_F(ServerRouter, an_upstream_that_answers_with_something_else_is_an_error) {
  for (const std::string& bytes : {std::string("garbage\r\n\r\n"), std::string(),
                                   "HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'a')}) {
    const ScriptedServer upstream(bytes);
    load(upstream);
    expect_error(client().post("/v1/completions", kBody), bytes.empty() ? 503 : 500);
  }
  expect_alive();
}

TEST_F(ServerRouter, a_request_is_sent_again_after_its_process_ended) {
  const ScriptedServer ended("");
  const ScriptedServer started(answer(R"({"x":1})"));
  load(ended, 1);
  std::thread loads([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ended.request().empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    models_.set({.state = ModelState::kLoading,
                 .progress = 0,
                 .n_loads = 1,
                 .port = std::nullopt,
                 .error = std::nullopt});
    load(started, 2);
  });
  const RawResponse got = client().post("/v1/completions", kBody);
  loads.join();
  EXPECT_EQ(got.body, R"({"x":1})");
  EXPECT_TRUE(ended.request().ends_with(kBody));
  EXPECT_TRUE(started.request().ends_with(kBody));
}

TEST_F(ServerRouter, a_request_is_sent_again_once) {
  const ScriptedServer ended("");
  load(ended, 1);
  std::thread loads([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ended.request().empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    load(ended, 2);
  });
  expect_error(client().post("/v1/completions", kBody), 503);
  loads.join();
  EXPECT_EQ(ended.n_requests(), 2);
}

// Clients try a request with 503 again, which would not help if the file is gone or damaged.
TEST_F(ServerRouter, a_model_that_cannot_be_loaded_is_an_error_with_the_reason) {
  const std::tuple<ErrorCode, unsigned, const char*> errors[] = {
      {ErrorCode::kNotFound, 404, "model_not_found"},
      {ErrorCode::kCorrupt, 500, ""},
      {ErrorCode::kUnsupported, 500, ""},
      {ErrorCode::kExhausted, 503, "overloaded"},
      {ErrorCode::kUnavailable, 503, "overloaded"}};
  for (const auto& [code, status, name] : errors) {
    models_.set({.state = ModelState::kFailed,
                 .progress = 0,
                 .n_loads = 0,
                 .port = std::nullopt,
                 .error = Error{code, "the reason"}});
    const RawResponse got = client().post("/v1/completions", kBody);
    EXPECT_EQ(expect_error(got, status), status == 404 ? "model" : "");
    EXPECT_EQ(string_at(json(got.body), "/error/code"), name);
    EXPECT_EQ(string_at(json(got.body), "/error/message"), "the reason");
    const std::string stops = status == 500 ? "false" : "";
    EXPECT_EQ(got.header("x-should-retry"), stops);
    EXPECT_EQ(client().post("/api/show", R"({"model":"one"})").status, status);
    const RawResponse loaded = client().post("/v1/models/load", R"({"model":"one"})");
    EXPECT_EQ(loaded.status, status);
    EXPECT_EQ(loaded.header("x-should-retry"), stops);
  }
  EXPECT_EQ(models_.n_pauses_ended, 5) << "an operator's load does not wait";
  EXPECT_EQ(expect_error(client().post("/v1/completions", R"({"model":"two"})"), 404), "model");
  expect_error(client().post("/v1/completions", "{"), 400);
}

TEST_F(ServerRouter, a_stream_that_waits_for_its_model_shows_the_progress) {
  const ScriptedServer upstream(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ndata: 1\n\n\r\n0\r\n\r\n");
  const RawResponse got = stream_while_loading(upstream, 0.25);
  EXPECT_TRUE(got.body.starts_with(": loading one: 25%\n\n")) << got.body;
  EXPECT_TRUE(got.body.ends_with("data: 1\n\n")) << got.body;
}

TEST_F(ServerRouter, an_error_after_the_stream_began_is_an_event) {
  const std::string error = R"({"error":{"message":"too long"}})";
  const ScriptedServer upstream(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(error.size()) + "\r\n\r\n" + error);
  const RawResponse got = stream_while_loading(upstream, 0.5);
  EXPECT_NE(got.body.find("data: " + error + "\n\n"), std::string::npos) << got.body;
}

TEST_F(ServerRouter, a_client_that_leaves_ends_its_use) {
  models_.set({.state = ModelState::kLoading,
               .progress = 0,
               .n_loads = 0,
               .port = std::nullopt,
               .error = std::nullopt});
  {
    RawClient leaving = client();
    leaving.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 28\r\n\r\n" +
                 std::string(kBody));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (models_.n_uses() == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(models_.n_uses(), 1);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (models_.n_uses() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(models_.n_uses(), 0);
}

TEST_F(ServerRouter, the_end_of_the_server_ends_waiting_requests) {
  models_.set({.state = ModelState::kLoading,
               .progress = 0,
               .n_loads = 0,
               .port = std::nullopt,
               .error = std::nullopt});
  RawClient waiting = client();
  std::thread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server->stop(std::chrono::milliseconds(50));
  });
  expect_error(waiting.post("/v1/completions", kBody), 503);
  stops.join();
}

}  // namespace
}  // namespace kvik
