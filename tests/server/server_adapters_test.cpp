// Adapters by name: listing, loading, unloading, and the permissions for them.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "server_fixture.h"
#include "service/adapters/adapter_registry.h"

namespace kvik {
namespace {

class FakeBook final : public AdapterRegistry {
 public:
  std::vector<AdapterCard> list() const override {
    const std::scoped_lock lock(mutex_);
    std::vector<AdapterCard> all;
    for (const auto& [name, card] : cards_) all.push_back(card);
    return all;
  }
  bool has(std::string_view name) const override {
    const std::scoped_lock lock(mutex_);
    return cards_.contains(std::string(name));
  }
  bool is_loaded(std::string_view) const override { return true; }
  Result<std::shared_ptr<const Adapter>> take(std::string_view) override {
    return std::shared_ptr<const Adapter>();
  }
  Result<AdapterCard> add(const std::string& name, const std::string& spec,
                          AdapterOrigin origin) override {
    const std::scoped_lock lock(mutex_);
    EXPECT_EQ(origin, AdapterOrigin::kClient);
    if (spec.starts_with("broken")) return fail(ErrorCode::kCorrupt, "the file is broken");
    if (name == "taken") return fail(ErrorCode::kInvalidArgument, "it is there", "name");
    cards_[name] = {
        .name = name,
        .path = spec,
        .scale = 1.0f,
        .created_s = 12,
        .loaded = AdapterCard::Loaded{.bytes = 99, .rank = 8, .n_pairs = 3, .digest = "d"}};
    return cards_[name];
  }
  Result<void> remove(std::string_view name) override {
    const std::scoped_lock lock(mutex_);
    if (cards_.erase(std::string(name)) == 1) return {};
    return fail(ErrorCode::kNotFound, "there is no such adapter", "model");
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, AdapterCard> cards_;
};

class ServerAdapters : public ServerFixture {
 protected:
  ServerAdapters() { service.book = &book; }
  static RawResponse request(RawClient& client, const std::string& method, const std::string& path,
                             const std::string& body = "", const std::string& headers = "") {
    client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.read_response();
  }
  FakeBook book;
};

TEST_F(ServerAdapters, an_adapter_is_loaded_listed_and_unloaded) {
  RawClient c = client();
  const RawResponse loaded =
      c.post("/v1/adapters", R"({"name": "poet", "path": "p.gguf", "scale": 0.5})");
  ASSERT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(string_at(json(loaded.body), "/id"), "poet");
  EXPECT_EQ(string_at(json(loaded.body), "/path"), "p.gguf:0.5");
  const auto models = json(c.get("/v1/models").body);
  EXPECT_EQ(string_at(models, "/data/1/id"), "poet");
  EXPECT_EQ(string_at(models, "/data/1/parent"), string_at(models, "/data/0/id"));
  EXPECT_EQ(string_at(json(c.get("/v1/models/poet").body), "/id"), "poet");
  EXPECT_EQ(string_at(json(c.get("/v1/adapters").body), "/data/0/id"), "poet");
  EXPECT_EQ(c.get("/v1/adapters/poet").status, 200);
  EXPECT_EQ(request(c, "DELETE", "/v1/adapters/poet").status, 200);
  expect_error(request(c, "DELETE", "/v1/adapters/poet"), 404);
  expect_error(c.get("/v1/adapters/poet"), 404);
  expect_error(c.get("/v1/models/poet"), 404);
}

TEST_F(ServerAdapters, vllms_names_do_the_same) {
  RawClient c = client();
  const RawResponse loaded =
      c.post("/v1/load_lora_adapter", R"({"lora_name": "poet", "lora_path": "p"})");
  EXPECT_EQ(loaded.status, 200);
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'poet' added successfully.");
  EXPECT_TRUE(book.has("poet"));
  const RawResponse gone = c.post("/v1/unload_lora_adapter", R"({"lora_name": "poet"})");
  EXPECT_EQ(gone.status, 200);
  EXPECT_EQ(gone.body, "Success: LoRA adapter 'poet' removed successfully.");
  expect_error(c.post("/v1/unload_lora_adapter", R"({"lora_name": "poet"})"), 404);
}

TEST_F(ServerAdapters, what_is_wrong_with_a_request_names_its_field) {
  RawClient c = client();
  EXPECT_EQ(expect_error(c.post("/v1/adapters", R"({"path": "p"})"), 400), "name");
  EXPECT_EQ(expect_error(c.post("/v1/adapters", R"({"name": "a"})"), 400), "path");
  EXPECT_EQ(expect_error(c.post("/v1/adapters", R"({"name": "a", "path": 3})"), 400), "path");
  EXPECT_EQ(expect_error(c.post("/v1/adapters", R"({"name": "a", "path": "broken"})"), 400),
            "path");
  EXPECT_EQ(
      expect_error(c.post("/v1/load_lora_adapter", R"({"lora_name": "taken", "lora_path": "p"})"),
                   400),
      "lora_name");
  EXPECT_EQ(expect_error(c.post("/v1/load_lora_adapter", R"({"lora_name": "a"})"), 400),
            "lora_path");
  expect_alive();
}

TEST_F(ServerAdapters, only_an_operator_loads_adapters_and_sees_paths) {
  options.api_keys = std::vector<ApiKey>{{.secret = "boss", .name = "boss", .is_operator = true},
                                         {.secret = "guest", .name = "guest"}};
  RawClient c = client();
  const auto as = [](const char* key) {
    return std::string("Authorization: Bearer ") + key + "\r\n";
  };
  const char* body = R"({"name": "poet", "path": "p"})";
  EXPECT_EQ(request(c, "POST", "/v1/adapters", body, as("guest")).status, 403);
  EXPECT_EQ(request(c, "POST", "/v1/adapters", body, as("boss")).status, 200);
  EXPECT_EQ(request(c, "DELETE", "/v1/adapters/poet", "", as("guest")).status, 403);
  const auto seen = [&](const char* key) {
    return json(request(c, "GET", "/v1/adapters/poet", "", as(key)).body).as_object();
  };
  EXPECT_TRUE(seen("boss").contains("path"));
  EXPECT_FALSE(seen("guest").contains("path"));
}

TEST_F(ServerAdapters, a_chosen_adapter_is_the_model_that_answers) {
  RawClient c = client();
  c.post("/v1/adapters", R"({"name": "poet", "path": "p"})");
  service.answer_with([](FakeCall& call) {
    call.send("x");
    call.finish();
    call.done();
  });
  for (const std::string& model :
       {std::string("poet"), std::string("poet:latest"), service.card().id.text() + ":poet"}) {
    const RawResponse answer =
        c.post("/v1/completions", R"({"prompt": "a", "model": ")" + model + "\"}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(string_at(json(answer.body), "/model"), model);
  }
}

}  // namespace
}  // namespace kvik
