// Ollama's API for models: listing, showing, downloading, copying and deleting them.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/dialects/ollama/model_pulls.h"
#include "server_fixture.h"
#include "service/model_library.h"

namespace kvik {
namespace {

StoredModel stored(const std::string& name) {
  StoredModel model;
  model.name = name;
  return model;
}

// A library whose downloads the test controls.
class FakeLibrary final : public ModelLibrary {
 public:
  Result<std::vector<StoredModel>> list() override {
    const std::scoped_lock lock(mutex_);
    return models_;
  }

  // Reports 10 bytes of one file in steps; "missing" is not found, "endless" ends when it is
  // stopped.
  Result<StoredModel> pull(const std::string& name,
                           const std::function<bool(const PullProgress&)>& on_progress) override {
    on_progress({.status = "pulling manifest", .digest = ""});
    if (name == "missing") return fail(ErrorCode::kNotFound, "there is no model missing");
    for (uint64_t n = 0; n <= 10 || name == "endless"; ++n) {
      const bool goes_on = on_progress(
          {.status = "downloading a.gguf", .digest = "abc", .n_done = n, .n_total = 10});
      if (!goes_on) return stopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    on_progress({.status = "success", .digest = ""});
    const std::scoped_lock lock(mutex_);
    models_.push_back(stored(name));
    return models_.back();
  }

  Result<void> remove(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    if (std::erase_if(models_, [&](const StoredModel& m) { return m.name == name; }) > 0) return {};
    return fail(ErrorCode::kNotFound, "model '" + name + "' not found");
  }

  Result<void> copy(const std::string& from, const std::string& to) override {
    const std::scoped_lock lock(mutex_);
    for (const StoredModel& model : models_) {
      if (model.name != from) continue;
      StoredModel copied = model;
      copied.name = to;
      models_.push_back(copied);
      return {};
    }
    return fail(ErrorCode::kNotFound, "model '" + from + "' not found");
  }

  void add(StoredModel model) {
    const std::scoped_lock lock(mutex_);
    models_.push_back(std::move(model));
  }

  // Returns whether a download has been stopped before it was complete.
  bool wait_stopped() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestTimeout, [this] { return n_stopped_ > 0; });
  }

 private:
  std::unexpected<Error> stopped() {
    const std::scoped_lock lock(mutex_);
    ++n_stopped_;
    changed_.notify_all();
    return fail(ErrorCode::kIo, "the download was stopped");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StoredModel> models_;
  int n_stopped_ = 0;
};

class ServerOllamaModels : public ServerFixture {
 protected:
  ServerOllamaModels() { options.model_library = &library; }
  ~ServerOllamaModels() override { server.reset(); }

  static RawResponse send(RawClient client, const std::string& method, const std::string& path,
                          const std::string& body, const std::string& headers = "") {
    client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.read_response();
  }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    const auto value = json(client().get("/api/tags").body);
    for (const auto& model : value.at("models").as_array())
      out.push_back(string_at(model, "/name"));
    return out;
  }

  std::string sentence(const RawResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    return string_at(json(response.body), "/error");
  }

  FakeLibrary library;
};

using Names = std::vector<std::string>;

TEST_F(ServerOllamaModels, lists_the_served_and_the_stored_models) {
  library.add({.name = "org/repo:Q4_K_M",
               .path = "/secret/a.gguf",
               .n_bytes = 7,
               .digest = std::string(64, 'a'),
               .modified = 1'700'000'000,
               .format = "gguf",
               .family = "llama",
               .parameter_size = "1.5B",
               .quantization = "Q4_K_M"});
  library.add(stored("tiny/model"));  // the served one
  const RawResponse response = client().get("/api/tags");
  EXPECT_FALSE(response.body.contains("secret")) << response.body;
  const auto models = json(response.body).at("models");
  ASSERT_EQ(models.as_array().size(), 2u);
  EXPECT_EQ(string_at(models, "/0/model"), "tiny/model:latest");
  EXPECT_EQ(string_at(models, "/0/details/family"), "llama");
  EXPECT_EQ(boost::json::serialize(models.at(1)),
            R"({"name":"org/repo:Q4_K_M","model":"org/repo:Q4_K_M",)"
            R"("modified_at":"2023-11-14T22:13:20Z","size":7,"digest":")" +
                std::string(64, 'a') +
                R"(","details":{"parent_model":"","format":"gguf","family":"llama",)"
                R"("families":["llama"],"parameter_size":"1.5B","quantization_level":"Q4_K_M"}})");
}

TEST_F(ServerOllamaModels, without_a_library_the_served_model_is_listed) {
  options.model_library = nullptr;
  EXPECT_EQ(names(), Names{"tiny/model:latest"});
}

TEST_F(ServerOllamaModels, without_a_library_nothing_is_changed) {
  options.model_library = nullptr;
  constexpr const char* kSentence =
      "this server serves one model and has no library of models to download, copy or delete";
  EXPECT_EQ(sentence(client().post("/api/pull", R"({"model":"a"})"), 400), kSentence);
  EXPECT_EQ(sentence(client().post("/api/copy", R"({"source":"a","destination":"b"})"), 400),
            kSentence);
  EXPECT_EQ(sentence(send(client(), "DELETE", "/api/delete", R"({"model":"a"})"), 400), kSentence);
}

TEST_F(ServerOllamaModels, shows_the_served_model) {
  const auto value = json(client().post("/api/show", R"({"model":"tiny/model:latest"})").body);
  EXPECT_EQ(string_at(value, "/model_info/general.architecture"), "llama");
  EXPECT_EQ(value.at("model_info").at("llama.context_length").as_int64(), 256);
  EXPECT_EQ(string_at(value, "/parameters"), "num_ctx 256");
  EXPECT_EQ(boost::json::serialize(value.at("capabilities")), R"(["completion"])");
  EXPECT_EQ(sentence(client().post("/api/show", R"({"model":"other"})"), 404).substr(0, 23),
            "model 'other' not found");
  EXPECT_EQ(sentence(client().post("/api/show", "{}"), 400), "model is required");
}

TEST_F(ServerOllamaModels, shows_a_stored_model) {
  StoredModel model = stored("a:latest");
  model.family = "qwen3";
  library.add(model);
  const auto value = json(client().post("/api/show", R"({"name":"a"})").body);
  EXPECT_EQ(string_at(value, "/details/family"), "qwen3");
}

TEST_F(ServerOllamaModels, the_running_model_has_its_planned_memory) {
  options.memory_plan = {{"weights", 100}, {"KV cache", 20}};
  const auto model = json(client().get("/api/ps").body).at("models").at(0);
  EXPECT_EQ(string_at(model, "/name"), "tiny/model:latest");
  EXPECT_EQ(model.at("size").as_int64(), 120);
  EXPECT_EQ(model.at("size_vram").as_int64(), 0);
  EXPECT_EQ(model.at("context_length").as_int64(), 256);
  EXPECT_EQ(string_at(model, "/expires_at"), "9999-12-31T23:59:59Z");
}

TEST_F(ServerOllamaModels, a_download_reports_its_progress) {
  const RawResponse response = client().post("/api/pull", R"({"model":"a:q4"})");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "application/x-ndjson");
  EXPECT_TRUE(response.body.starts_with("{\"status\":\"pulling manifest\"}\n")) << response.body;
  EXPECT_TRUE(
      response.body.contains("{\"status\":\"downloading a.gguf\",\"digest\":\"sha256:abc\","
                             "\"total\":10,\"completed\":10}\n"))
      << response.body;
  EXPECT_TRUE(response.body.ends_with("\n{\"status\":\"success\"}\n")) << response.body;
  EXPECT_EQ(names(), (Names{"tiny/model:latest", "a:q4"}));
}

TEST_F(ServerOllamaModels, a_download_that_is_not_streamed_answers_at_its_end) {
  const RawResponse response = client().post("/api/pull", R"({"name":"a","stream":false})");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, R"({"status":"success"})");
  EXPECT_EQ(sentence(client().post("/api/pull", R"({"model":"missing","stream":false})"), 404),
            "there is no model missing");
}

TEST_F(ServerOllamaModels, a_download_that_fails_ends_its_stream_with_an_error) {
  const RawResponse response = client().post("/api/pull", R"({"model":"missing"})");
  EXPECT_EQ(response.body,
            "{\"status\":\"pulling manifest\"}\n{\"error\":\"there is no model missing\"}\n");
}

TEST_F(ServerOllamaModels, a_client_that_leaves_stops_its_download) {
  RawClient reader = client();
  reader.send_post("/api/pull", R"({"model":"endless"})");
  EXPECT_EQ(reader.read_head().status, 200);
  EXPECT_TRUE(reader.read_chunk());
  reader.close();
  EXPECT_TRUE(library.wait_stopped());
}

TEST_F(ServerOllamaModels, a_stopping_server_stops_downloads) {
  RawClient reader = client();
  reader.send_post("/api/pull", R"({"model":"endless"})");
  EXPECT_TRUE(reader.read_head().status == 200 && reader.read_chunk());
  server.reset();
  EXPECT_TRUE(library.wait_stopped());
}

TEST_F(ServerOllamaModels, only_a_few_models_are_downloaded_at_once) {
  std::vector<RawClient> readers;
  for (unsigned i = 0; i < ModelPulls::kMost; ++i) {
    readers.push_back(client());
    readers.back().send_post("/api/pull", R"({"model":"endless"})");
    EXPECT_EQ(readers.back().read_head().status, 200);
  }
  EXPECT_EQ(sentence(client().post("/api/pull", R"({"model":"a"})"), 429),
            "2 models are being downloaded; try again when one is done");
  readers.clear();
  EXPECT_TRUE(library.wait_stopped());
}

TEST_F(ServerOllamaModels, models_are_copied_and_deleted) {
  library.add(stored("a"));
  const RawResponse copied = client().post("/api/copy", R"({"source":"a","destination":"b"})");
  EXPECT_EQ(copied.status, 200);
  EXPECT_EQ(copied.body, "");
  EXPECT_EQ(send(client(), "DELETE", "/api/delete", R"({"model":"a"})").status, 200);
  EXPECT_EQ(names(), (Names{"tiny/model:latest", "b"}));
  EXPECT_EQ(sentence(send(client(), "DELETE", "/api/delete", R"({"name":"a"})"), 404),
            "model 'a' not found");
  EXPECT_EQ(sentence(client().post("/api/copy", R"({"source":"b"})"), 400),
            "destination is required");
}

TEST_F(ServerOllamaModels, changes_need_the_key_of_an_operator) {
  options.api_keys = {{.secret = "k1", .name = "ann"},
                      {.secret = "k2", .name = "bob", .is_operator = true}};
  constexpr const char* kSentence =
      "models are downloaded, copied and deleted with the key of an operator";
  constexpr const char* kUser = "x-api-key: k1\r\n";
  EXPECT_EQ(sentence(client().post("/api/pull", R"({"model":"a"})", kUser), 403), kSentence);
  EXPECT_EQ(sentence(client().post("/api/copy", R"({"source":"a","destination":"b"})", kUser), 403),
            kSentence);
  EXPECT_EQ(sentence(send(client(), "DELETE", "/api/delete", R"({"model":"a"})", kUser), 403),
            kSentence);
  EXPECT_EQ(client().post("/api/pull", R"({"model":"a"})", "x-api-key: k2\r\n").status, 200);
}

// The reports of a file that the reader has not taken yet become one.
TEST(PullMailbox, a_slow_reader_gets_the_newest_report_of_each_step) {
  PullMailbox mailbox;
  for (uint64_t n = 0; n < 1000; ++n)
    mailbox.put({.status = "downloading", .digest = "a", .n_done = n, .n_total = 1000});
  mailbox.put({.status = "verifying", .digest = "a"});
  mailbox.end(StoredModel{});
  EXPECT_EQ(mailbox.take().progress->n_done, 999u);
  EXPECT_EQ(mailbox.take().progress->status, "verifying");
  const PullMailbox::News news = mailbox.take();
  EXPECT_TRUE(news.has_ended);
  EXPECT_FALSE(news.error);
}

TEST(PullMailbox, a_library_that_reports_many_steps_fills_no_memory) {
  PullMailbox mailbox;
  for (int i = 0; i < 10'000; ++i) mailbox.put({.status = std::to_string(i), .digest = ""});
  size_t n = 0;
  std::string last;
  while (const auto progress = mailbox.take().progress) {
    last = progress->status;
    ++n;
  }
  EXPECT_LE(n, 64u);
  EXPECT_EQ(last, "9999");
}

TEST(PullMailbox, after_it_is_closed_the_download_is_told_to_stop) {
  PullMailbox mailbox;
  EXPECT_TRUE(mailbox.put({.status = "a", .digest = ""}));
  mailbox.close();
  EXPECT_FALSE(mailbox.put({.status = "b", .digest = ""}));
}

}  // namespace
}  // namespace kvik
